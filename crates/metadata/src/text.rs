//! Text of bounded length.

use model::limits::FUNCTION_NAME_BYTES_MAX;

/// What stands for what is unknown, too deep or too long.
pub(crate) const UNKNOWN: &str = "…";

/// The text, cut to what a name may have; a cut is shown by `…` at the end.
pub(crate) fn bounded(mut text: String) -> String {
    if text.len() > FUNCTION_NAME_BYTES_MAX {
        let mut end = FUNCTION_NAME_BYTES_MAX.saturating_sub(UNKNOWN.len());
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        text.truncate(end);
        text.push_str(UNKNOWN);
    }
    text
}

/// The parts with `, ` between them, no longer than a name may be.
pub(crate) fn list<I>(parts: I) -> String
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let mut text = String::new();
    for (index, part) in parts.into_iter().enumerate() {
        if text.len() > FUNCTION_NAME_BYTES_MAX {
            break;
        }
        if index > 0 {
            text.push_str(", ");
        }
        text.push_str(part.as_ref());
    }
    bounded(text)
}

/// Splits at the last dot that is not inside angle brackets and not the first character:
/// `System.Int32` at its dot, `Ns.IHandler<System.String>.Handle` before `Handle`, `.ctor` nowhere.
pub(crate) fn split_qualified(name: &str) -> (&str, &str) {
    let mut depth = 0_u32;
    let mut at = None;
    for (index, byte) in name.bytes().enumerate() {
        match byte {
            b'<' => depth = depth.saturating_add(1),
            b'>' => depth = depth.saturating_sub(1),
            b'.' if depth == 0 && index > 0 => at = Some(index),
            _ => {}
        }
    }
    // A name such as `Type..ctor` splits before its own dot.
    match at {
        Some(index) if name.get(..index).is_some_and(|left| left.ends_with('.')) => {
            let left = name.get(..index.saturating_sub(1)).unwrap_or_default();
            (left, name.get(index..).unwrap_or_default())
        }
        Some(index) => {
            let right = name.get(index.saturating_add(1)..).unwrap_or_default();
            (name.get(..index).unwrap_or_default(), right)
        }
        None => ("", name),
    }
}

/// The name without the count of generic parameters, and the count: ``List`1`` is `List` and 1.
pub(crate) fn split_arity(name: &str) -> (&str, usize) {
    match name.rsplit_once('`') {
        Some((left, digits)) => match digits.parse::<u16>() {
            Ok(arity) if !left.is_empty() => (left, usize::from(arity)),
            _ => (name, 0),
        },
        None => (name, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        let text = bounded("é".repeat(FUNCTION_NAME_BYTES_MAX));
        assert!(text.len() <= FUNCTION_NAME_BYTES_MAX);
        assert!(text.ends_with("é…"));
        assert_eq!(bounded("short".to_owned()), "short");
    }

    #[test]
    fn qualified_names_split_outside_brackets() {
        assert_eq!(split_qualified("System.Int32"), ("System", "Int32"));
        assert_eq!(split_qualified(".ctor"), ("", ".ctor"));
        assert_eq!(split_qualified("Ns.IA<B.C>.M"), ("Ns.IA<B.C>", "M"));
        assert_eq!(split_qualified("Ns.<f>F01__X"), ("Ns", "<f>F01__X"));
        assert_eq!(split_qualified("Plain"), ("", "Plain"));
        assert_eq!(split_qualified(""), ("", ""));
        assert_eq!(split_qualified("a..ctor"), ("a", ".ctor"));
    }

    #[test]
    fn arity_is_a_number_after_the_last_backtick() {
        assert_eq!(split_arity("List`1"), ("List", 1));
        assert_eq!(split_arity("`1"), ("`1", 0));
        assert_eq!(split_arity("a`b"), ("a`b", 0));
        assert_eq!(split_arity("a`99999999"), ("a`99999999", 0));
    }
}
