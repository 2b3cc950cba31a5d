//! From a name as a compiler made it to one that a person can read.

use std::fmt::{self, Write};

use model::limits::FUNCTION_NAME_BYTES_MAX;

use crate::cpp_path;

/// The readable form of a mangled name; `None` if it is none, or none that we can read. Rust's are
/// complete; of C++ it is the path, `ns::Store<…>::load`: the rest needs a parser that is as large
/// as half of the agent, so readers of profiles do it (they have the raw name).
#[must_use]
pub fn readable(name: &str) -> Option<String> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        let mut text = Bounded(String::new());
        // An error says that the bound is reached: what is there by then is kept.
        let _cut = write!(text, "{rust:#}");
        return Some(text.0).filter(|text| !text.is_empty());
    }
    cpp_path::of(name)
}

/// A name can be short and say very much, by references to its own parts.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len().saturating_add(text.len()) > FUNCTION_NAME_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_compilers() {
        for (mangled, expected) in [
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", Some("core::fmt::Formatter::pad")),
            (
                "_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_str\
                 17h0123456789abcdefE",
                Some("<alloc::string::String as core::fmt::Write>::write_str"),
            ),
            ("_RNvCs1234_7mycrate3foo", Some("mycrate::foo")),
            ("_RINvNtC3std3mem8align_ofdE", Some("std::mem::align_of::<f64>")),
            ("_ZN2ns5Store4loadEi", Some("ns::Store::load")),
            ("main", None),
            ("_R", None),
            ("_ZTV1A", None),
            ("", None),
        ] {
            assert_eq!(readable(mangled).as_deref(), expected, "{mangled}");
        }
    }

    #[test]
    fn a_short_name_that_says_much_is_cut() {
        // Each tuple has the one before it twice: the last would have 2^40 parts.
        let mut name = "INvC1a1b".to_owned();
        let mut before = name.len();
        name.push_str("TttE");
        for _ in 0..40 {
            let at = name.len();
            let reference = format!("B{}_", base_62(before));
            name.push_str(&format!("T{reference}{reference}E"));
            before = at;
        }
        let text = readable(&format!("_R{name}E")).unwrap_or_default();
        assert!(text.starts_with("a::b::<(u16, u16), ((u16, u16), (u16, u16)), "), "{text}");
        let room = FUNCTION_NAME_BYTES_MAX - 20..=FUNCTION_NAME_BYTES_MAX;
        assert!(room.contains(&text.len()), "{}", text.len());
    }

    /// A position as such names have it, other than 0.
    fn base_62(number: usize) -> String {
        const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let digit = |n: usize| char::from(DIGITS[n]);
        match number - 1 {
            n @ 0..62 => digit(n).to_string(),
            n => format!("{}{}", digit(n / 62), digit(n % 62)),
        }
    }
}
