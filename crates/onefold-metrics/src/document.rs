//! The reference of all metrics, as the page docs/metrics.md has it.
//! Room: onefold-metrics.

use crate::definition::Definition;

/// The tables, one for each subject, which is the second word of a name.
pub fn tables(definitions: impl Iterator<Item = &'static Definition>) -> String {
    let mut out = String::new();
    let mut subject = "";
    for definition in definitions {
        let of = definition.name.split('_').nth(1).unwrap_or_default();
        if of != subject {
            subject = of;
            let title = title(subject);
            out.extend(["\n## ", title, "\n\n"]);
        }
        out.push_str(&entry(definition));
    }
    out
}

fn title(subject: &str) -> &'static str {
    match subject {
        "pool" => "The pool",
        "volume" => "Volumes",
        "connections" | "export" => "Clients and exports",
        "cache" => "The cache on a fast device",
        "drive" => "An emulated drive",
        _ => "The process",
    }
}

/// An item of a list, in lines that fit a page.
fn entry(definition: &Definition) -> String {
    let mut text = format!("- `{}` ({}", definition.name, definition.kind.name());
    if !definition.labels.is_empty() {
        let labels: Vec<String> =
            definition.labels.iter().map(|label| format!("`{label}`")).collect();
        text.extend(["; by ", &labels.join(" and ")]);
    }
    text.extend(["): ", definition.help, "."]);
    if let Some(status) = definition.status {
        text.extend([" In `--json`: `", status, "`."]);
    }
    let (mut out, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        if width + 1 + word.chars().count() > 98 {
            out.push_str("\n  ");
            width = 2;
        } else if width > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += word.chars().count();
    }
    out + "\n"
}
