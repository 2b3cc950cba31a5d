//! The unwind tables of a moment: of native and of managed code, and what was found in them before.

use crate::cache::{Cache, Known};
use crate::rule::Rule;
use crate::table::{Found, Table};

/// The unwind tables of a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables<'a> {
    /// Of the ELF modules.
    pub native: Table<'a>,
    /// Of the runtime's methods, as far as they are known.
    pub managed: Table<'a>,
    /// Where the runtime's return hijacker begins; 0 if it was not found. A return address of that
    /// value stands for another, which only the runtime knows.
    pub hijack: u64,
    /// What was found in these two tables, and in no others, before.
    pub cache: Cache<'a>,
}

/// What is known of the code at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Native code, and its rule.
    Native(Rule),
    /// In a native module, at a place without unwind data.
    NativeGap,
    /// Managed code, and its rule.
    Managed(Rule),
    /// In no native module, and in no method that is known.
    Unknown,
}

impl Tables<'_> {
    /// The code at an address, and how to find its caller.
    ///
    /// # Signal safety
    /// Reads only the tables, reads and writes the cache.
    #[must_use]
    pub fn find(&self, address: u64) -> Code {
        if let Some(known) = self.cache.get(address)
            && let Some(code) = self.known(known)
        {
            return code;
        }
        let (managed, found) = match self.native.find_index(address) {
            Found::Outside => (true, self.managed.find_index(address)),
            found => (false, found),
        };
        match found {
            Found::Rule(rule) => {
                let known = Known { managed, rule };
                self.cache.note(address, known);
                self.known(known)
            }
            Found::NoRule if !managed => Some(Code::NativeGap),
            Found::NoRule | Found::Outside => None,
        }
        .unwrap_or(Code::Unknown)
    }

    fn known(&self, known: Known) -> Option<Code> {
        if known.managed {
            self.managed.rule(known.rule).map(Code::Managed)
        } else {
            self.native.rule(known.rule).map(Code::Native)
        }
    }
}
