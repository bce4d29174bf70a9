//! What the keys of `onefold top` mean.
//! Room: onefold.

use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Be done.
    Leave,
    /// Hold what is shown still, or go on.
    Hold,
    /// Sort the exports otherwise.
    Sort,
    /// Move the list of exports by so many rows.
    Move(i32),
}

/// How it is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looking {
    /// What is shown stays.
    pub is_held: bool,
    /// Exports by their names rather than by how busy they are.
    pub by_name: bool,
    /// The first export that is shown.
    pub first: usize,
}

impl Looking {
    /// Look at it as is wished.
    pub fn heed(&mut self, wish: Wish) {
        match wish {
            Wish::Leave => {}
            Wish::Hold => self.is_held = !self.is_held,
            Wish::Sort => self.by_name = !self.by_name,
            Wish::Move(rows) => {
                let by = rows.unsigned_abs() as usize;
                self.first = if rows.is_negative() {
                    self.first.saturating_sub(by)
                } else {
                    self.first.saturating_add(by)
                };
            }
        }
    }
}

/// Rows that the keys for pages move.
const PAGE: i32 = 10;

/// What an event says that somebody wants; nothing for a change of the size, which is drawn anyway.
pub fn wish(event: &Event) -> Option<Wish> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if control => Wish::Leave,
        KeyCode::Char('q') | KeyCode::Esc => Wish::Leave,
        KeyCode::Char('p' | ' ') => Wish::Hold,
        KeyCode::Char('s') => Wish::Sort,
        KeyCode::Up | KeyCode::Char('k') => Wish::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Wish::Move(1),
        KeyCode::PageUp => Wish::Move(-PAGE),
        KeyCode::PageDown => Wish::Move(PAGE),
        KeyCode::Home => Wish::Move(i32::MIN),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn keys_do_what_the_help_says_and_others_nothing() {
        let of = |code, modifiers| wish(&Event::Key(KeyEvent::new(code, modifiers)));
        let plain = |code| of(code, KeyModifiers::NONE);
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Wish::Leave));
        assert_eq!(plain(KeyCode::Char('c')), None);
        assert_eq!(plain(KeyCode::Esc), Some(Wish::Leave));
        assert_eq!(wish(&Event::Resize(1, 1)), None);
        let mut looking = Looking::default();
        for code in [KeyCode::Char('p'), KeyCode::Char('s'), KeyCode::PageDown, KeyCode::Up] {
            looking.heed(plain(code).unwrap());
        }
        assert_eq!(looking, Looking { is_held: true, by_name: true, first: 9 });
        for code in [KeyCode::Char(' '), KeyCode::Char('s'), KeyCode::Home, KeyCode::Up] {
            looking.heed(plain(code).unwrap());
        }
        assert_eq!(looking, Looking::default());
    }
}
