//! Writing JSON: objects of texts and numbers are all that uploads need.

use std::fmt::Write as _;

/// An object being written.
#[derive(Debug)]
pub(crate) struct Object {
    text: String,
}

impl Object {
    pub(crate) fn new() -> Self {
        Self { text: "{".to_owned() }
    }

    fn key(&mut self, key: &str) {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        self.text.push_str(&quoted(key));
        self.text.push(':');
    }

    pub(crate) fn text(mut self, key: &str, text: &str) -> Self {
        self.key(key);
        self.text.push_str(&quoted(text));
        self
    }

    pub(crate) fn number(mut self, key: &str, number: u64) -> Self {
        self.key(key);
        self.text.push_str(&number.to_string());
        self
    }

    /// What is JSON already.
    pub(crate) fn raw(mut self, key: &str, json: &str) -> Self {
        self.key(key);
        self.text.push_str(json);
        self
    }

    pub(crate) fn done(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len().saturating_add(2));
    json.push('"');
    for letter in text.chars() {
        match letter {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            c if u32::from(c) < 0x20 => {
                // Writing to a text can't fail.
                let _never = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        for (text, json) in [
            ("", "\"\""),
            ("a\"b\\c", "\"a\\\"b\\\\c\""),
            ("\n\r\t\u{1}\u{1f}é", "\"\\n\\r\\t\\u0001\\u001fé\""),
        ] {
            assert_eq!(quoted(text), json);
        }
    }

    #[test]
    fn objects_have_commas_between() {
        assert_eq!(Object::new().done(), "{}");
        let object = Object::new().text("a", "b").number("c", 1).raw("d", "null");
        assert_eq!(object.done(), "{\"a\":\"b\",\"c\":1,\"d\":null}");
    }
}
