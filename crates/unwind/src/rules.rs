//! Interned rules: each distinct one once, by its index.

use model::limits::UNWIND_RULES_MAX;
use rustc_hash::FxHashMap;
use signal::rule::Rule;

/// The rules of all modules. It only grows, so an index stays valid; since compilers emit few
/// distinct rules, loading and unloading a module over and over adds nothing.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    list: Vec<Rule>,
    index: FxHashMap<Rule, u32>,
}

impl Rules {
    /// The index of a rule. Beyond `limits::UNWIND_RULES_MAX` distinct rules, further ones get
    /// `Row::NO_RULE`.
    pub fn intern(&mut self, rule: Rule) -> u32 {
        if let Some(index) = self.index.get(&rule) {
            return *index;
        }
        let next = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        if self.list.len() >= UNWIND_RULES_MAX {
            return signal::table::Row::NO_RULE;
        }
        self.list.push(rule);
        self.index.insert(rule, next);
        next
    }

    /// All rules, by index.
    #[must_use]
    pub fn as_slice(&self) -> &[Rule] {
        &self.list
    }
}
