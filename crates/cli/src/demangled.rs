//! Names of C++ and Rust functions as their authors wrote them, from the names that the compilers
//! made of them. The profiler writes paths only (`ns::Store<…>::load`), since a demangler of C++ is
//! large; the raw name is in the file too.

use std::fmt::{self, Write};

use profile::{Profile, StringIndex};

/// The longest name that is written out, in bytes.
const NAME_BYTES_MAX: usize = 8 << 10;

/// Gives all functions whose raw name is a mangled one their full name.
pub fn name(profile: &mut Profile) {
    let Profile { functions, strings, .. } = profile;
    for function in functions {
        // Where the raw name is the name, files don't repeat it.
        let raw = match function.raw_name {
            StringIndex::EMPTY => function.name,
            raw => raw,
        };
        if let Some(full) = full(strings.get(raw))
            && let Some(name) = strings.intern(&full)
        {
            function.raw_name = raw;
            function.name = name;
        }
    }
}

/// The full name; `None` if this is no mangled one, or says too much.
fn full(mangled: &str) -> Option<String> {
    let mut text = Bounded(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(mangled) {
        write!(text, "{rust:#}").ok()?;
        return Some(text.0);
    }
    // The other beginnings that the demangler takes are words of C.
    if !mangled.starts_with("_Z") {
        return None;
    }
    let symbol = cpp_demangle::BorrowedSymbol::new(mangled.as_bytes()).ok()?;
    symbol.structured_demangle(&mut text, &cpp_demangle::DemangleOptions::new()).ok()?;
    Some(text.0)
}

/// A name can be short and say very much, by references to its own parts.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > NAME_BYTES_MAX {
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
    fn full_names() {
        for (mangled, expected) in [
            ("_ZN2ns5StoreIiE4loadERKSs", Some("ns::Store<int>::load(std::string const&)")),
            ("_ZZN1A3runEvENKUlvE_clEv", Some("A::run()::{lambda()#1}::operator()() const")),
            ("_ZN1A1fEv.cold", Some("A::f() [clone .cold]")),
            ("_RNvCs1234_7mycrate3foo", Some("mycrate::foo")),
            ("_ZN4core3fmt5write17h0123456789abcdefE", Some("core::fmt::write")),
            ("main", None),
            ("_Zip", None),
            ("a_function", None),
            ("_Z", None),
        ] {
            assert_eq!(full(mangled).as_deref(), expected, "{mangled}");
        }
    }

    #[test]
    fn names_that_say_too_much_stay() {
        // Each pair has the one before it twice.
        let mut name = "_Z1fSt4pairIiiE".to_owned();
        for number in 0..30 {
            let before = char::from_digit(number, 36).map(|digit| digit.to_ascii_uppercase());
            let before = before.unwrap();
            name.push_str(&format!("S_IS{before}_S{before}_E"));
        }
        assert!(full(&name).is_none_or(|text| text.len() <= NAME_BYTES_MAX));
    }
}
