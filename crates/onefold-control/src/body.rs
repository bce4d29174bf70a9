//! The body of a request: one JSON object that says everything once.
//! Room: onefold-control.
//! Why: of a key that is there twice readers take the first value or the last, so that what one of
//! them has looked at is not what another one does. And fields have names: an array whose entries
//! happen to fit would be something else once a field is added.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};

/// What a body says; none says nothing.
///
/// # Errors
/// In words: it is no such object.
pub fn object(body: &[u8]) -> Result<Value, String> {
    if body.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match serde_json::from_slice::<Once>(body) {
        Ok(Once(value)) if value.is_object() => Ok(value),
        Ok(_) => Err("the body is no JSON object".to_owned()),
        Err(error) if error.classify() == Category::Data => {
            Err(format!("the body makes no sense: {error}"))
        }
        Err(error) => Err(format!("the body is no JSON: {error}")),
    }
}

/// A value in which no object has a key twice.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Values).map(Self)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Once(entry)) = entries.next_element()? {
            array.push(entry);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("'{key}' is there twice")));
            }
            let Once(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_one_object_and_says_nothing_twice() {
        for text in [
            "{}",
            r#"{"a": null, "b": [true, -1, 18446744073709551615, 0.5, "x", {"a": 1}]}"#,
            r#"{"a": {"b": 1}, "c": {"b": 1}}"#,
        ] {
            assert_eq!(
                object(text.as_bytes()).unwrap().to_string(),
                text.replace(": ", ":").replace(", ", ",")
            );
        }
        assert_eq!(object(b"").unwrap(), Value::Object(Map::new()));
        let refused = |text: &str| object(text.as_bytes()).unwrap_err();
        for text in [
            r#"{"name": "a", "name": "b"}"#,
            r#"{"n\u0061me": "a", "name": "a"}"#,
            r#"{"x": [{"name": 1, "name": 1}]}"#,
        ] {
            let why = refused(text);
            assert!(why.starts_with("the body makes no sense: 'name' is there twice"), "{why}");
        }
        for text in ["[]", "null", "7", r#""name""#] {
            assert_eq!(refused(text), "the body is no JSON object", "{text}");
        }
        let deep = "[".repeat(100_000);
        for text in ["{", "{} {}", "{'a': 1}", "name", r#"{"a": 1,}"#, &deep] {
            assert!(refused(text).starts_with("the body is no JSON: "), "{text}");
        }
    }
}
