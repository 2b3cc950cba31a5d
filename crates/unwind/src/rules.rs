//! Interned rules: each distinct one once, by its index.

use model::limits::UNWIND_RULES_MAX;
use rustc_hash::FxHashMap;
use signal::rule::{Cfa, Rule, SavedBp};

/// The rules of all modules. It only grows, so an index stays valid; since compilers emit few
/// distinct rules, loading and unloading a module over and over adds nothing.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    list: Vec<Rule>,
    index: FxHashMap<Rule, u32>,
    /// Some that were asked for lately, with their indices: functions begin and end alike.
    recent: Vec<Option<(Rule, u32)>>,
}

/// How many are in `recent`.
const RECENT: usize = 64;

impl Rules {
    /// The index of a rule. Beyond `limits::UNWIND_RULES_MAX` distinct rules, further ones get
    /// `Row::NO_RULE`.
    pub fn intern(&mut self, rule: Rule) -> u32 {
        let place = place(rule);
        match self.recent.get(place) {
            Some(Some((known, index))) if *known == rule => return *index,
            Some(_) => {}
            None => self.recent.resize(RECENT, None),
        }
        let index = self.indexed(rule);
        if let Some(place) = self.recent.get_mut(place) {
            *place = Some((rule, index));
        }
        index
    }

    fn indexed(&mut self, rule: Rule) -> u32 {
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

/// The place of a rule among the recent ones: another one for most that functions have in turn.
fn place(rule: Rule) -> usize {
    let cfa = match rule.cfa {
        Cfa::Sp(offset) => offset / 8,
        Cfa::Bp(_) => 1,
        _ => 0,
    };
    let bp = match rule.bp {
        SavedBp::Same => 0,
        SavedBp::AtCfa(offset) => offset,
        SavedBp::Unknown => 1,
    };
    cfa.wrapping_add(bp.wrapping_mul(5)).cast_unsigned() as usize % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_one_index() {
        let mut rules = Rules::default();
        let mut random = testing::Random(3);
        for _ in 0..10_000 {
            let cfa = match random.below(3) {
                0 => Cfa::Bp(16),
                1 => Cfa::End,
                _ => Cfa::Sp(8 * random.below(200) as i32),
            };
            let bp = if random.below(2) == 0 { SavedBp::Same } else { SavedBp::AtCfa(-16) };
            let rule = Rule { cfa, bp };
            let index = rules.intern(rule);
            assert_eq!(rules.as_slice()[index as usize], rule);
        }
        let distinct: std::collections::HashSet<Rule> = rules.as_slice().iter().copied().collect();
        assert_eq!(distinct.len(), rules.as_slice().len());
    }
}
