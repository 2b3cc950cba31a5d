//! Everything that handlers can reach, breadth first, so that the path to an offence is a shortest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::image::Image;
use super::rules::{Named, Policy, Rule, by_name, crate_of};
use super::scan::{Deed, How, Target, scan};

/// What was found.
#[derive(Debug, Default)]
pub struct Closure {
    /// The handlers found, by name.
    pub handlers: Vec<String>,
    /// Functions reached, by name.
    pub functions: BTreeSet<String>,
    /// Bytes of instructions reached.
    pub bytes: u64,
    /// Functions of other libraries reached, and why they may be.
    pub imports: BTreeMap<String, &'static str>,
    /// System calls made, and why they may be.
    pub system_calls: BTreeMap<u64, &'static str>,
    /// Allowed indirect calls made, by function, and why they may be.
    pub indirect: BTreeMap<String, (usize, &'static str)>,
    /// Rules broken.
    pub offences: Vec<Offence>,
    /// Signs that this check did not see what it should have.
    pub doubts: Vec<String>,
}

/// A rule broken, and how the handler gets there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    /// The rule.
    pub rule: Rule,
    /// What breaks it.
    pub what: String,
    /// From the handler to the function whose instruction breaks it.
    pub path: Vec<Step>,
}

/// A function on the way, and the instruction in it that leads on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The function, demangled.
    pub function: String,
    /// The instruction's address.
    pub at: u64,
    /// How it leads on; `None` for the instruction that is the offence itself.
    pub how: Option<How>,
}

/// How a piece of code was reached first.
struct Node {
    name: String,
    from: Option<(u64, u64, How)>,
}

struct Follower<'a> {
    image: &'a Image,
    policy: &'a Policy,
    nodes: BTreeMap<u64, Node>,
    queue: VecDeque<u64>,
    /// Functions that were not gone into, since reaching them is an offence.
    indirect: BTreeMap<String, Vec<Offence>>,
    closure: Closure,
}

/// Follows a policy's handlers through a library.
pub fn follow(image: &Image, policy: &Policy) -> Closure {
    let mut follower = Follower {
        image,
        policy,
        nodes: BTreeMap::new(),
        queue: VecDeque::new(),
        indirect: BTreeMap::new(),
        closure: Closure::default(),
    };
    for handler in policy.handlers {
        follower.start(handler);
    }
    while let Some(entry) = follower.queue.pop_front() {
        follower.visit(entry);
    }
    follower.judge_indirect();
    follower.doubt();
    follower.closure
}

impl Follower<'_> {
    fn start(&mut self, handler: &str) {
        let mut found = false;
        for function in self.image.functions() {
            if function.names.iter().any(|name| demangle(name) == handler) {
                found = true;
                let name = handler.to_owned();
                self.nodes.insert(function.range.start, Node { name, from: None });
                self.queue.push_back(function.range.start);
            }
        }
        if found {
            self.closure.handlers.push(handler.to_owned());
        } else {
            self.closure.doubts.push(format!(
                "the handler `{handler}` is not in the library's symbol table: was it renamed, or \
                 the library stripped?"
            ));
        }
    }

    fn visit(&mut self, entry: u64) {
        let Some(function) = self.image.function_at(entry) else { return };
        let found = scan(self.image, entry, function.range);
        self.closure.bytes += found.bytes;
        self.closure.functions.insert(self.name(entry));
        for (at, deed) in found.deeds {
            self.judge(entry, at, deed);
        }
        for (at, how, target) in found.edges {
            match target {
                Target::Code(address) => self.reach(entry, at, how, address),
                Target::Import { name, lazy } => self.import(entry, at, how, &name, lazy),
            }
        }
    }

    /// A function of the library is reached.
    fn reach(&mut self, from: u64, at: u64, how: How, address: u64) {
        let Some(function) = self.image.function_at(address) else {
            let what = format!("leads to {address:#x}, which is no code");
            return self.offend(Rule::Undecodable, what, from, at, None);
        };
        let names: Vec<(&str, String)> =
            function.names.iter().map(|raw| (raw.as_str(), demangle(raw))).collect();
        let broken = names.iter().find_map(|(raw, demangled)| {
            by_name(&Named { raw, demangled }).map(|rule| (rule, demangled))
        });
        if let Some((rule, name)) = broken {
            return self.offend(rule, name.clone(), from, at, Some(how));
        }
        let allowed = |name: &String| {
            self.policy.crates.contains(&crate_of(name))
                || self.policy.imports.iter().any(|(import, _)| import == name)
        };
        // Code without a name is a linkage stub: what it leads to is judged.
        if let Some((_, name)) = names.first()
            && !names.iter().any(|(_, name)| allowed(name))
        {
            return self.offend(Rule::Outside, name.clone(), from, at, Some(how));
        }
        if self.nodes.contains_key(&address) {
            return;
        }
        let name = names.into_iter().next().map(|(_, name)| name);
        let name = name.unwrap_or_else(|| format!("stub at {address:#x}"));
        self.nodes.insert(address, Node { name, from: Some((from, at, how)) });
        self.queue.push_back(address);
    }

    /// A function of another library is reached.
    fn import(&mut self, from: u64, at: u64, how: How, name: &str, lazy: bool) {
        let demangled = demangle(name);
        if let Some(rule) = by_name(&Named { raw: name, demangled: &demangled }) {
            return self.offend(rule, demangled, from, at, Some(how));
        }
        let allowed = self.policy.imports.iter().find(|(import, _)| *import == name);
        let Some((_, reason)) = allowed else {
            return self.offend(Rule::Import, demangled, from, at, Some(how));
        };
        if lazy {
            return self.offend(Rule::LazyImport, demangled, from, at, Some(how));
        }
        self.closure.imports.insert(demangled, reason);
    }

    fn judge(&mut self, entry: u64, at: u64, deed: Deed) {
        match deed {
            Deed::ThreadLocal => {
                let what = "touches memory through fs, gs or a thread-local relocation".to_owned();
                self.offend(Rule::ThreadLocal, what, entry, at, None);
            }
            Deed::Undecodable => {
                let what = "holds bytes that are no instruction".to_owned();
                self.offend(Rule::Undecodable, what, entry, at, None);
            }
            Deed::SystemCall(number) => self.judge_system_call(entry, at, number),
            Deed::Indirect => {
                let what = "calls or jumps through a pointer".to_owned();
                let path = self.path(entry, at, None);
                let offence = Offence { rule: Rule::Indirect, what, path };
                self.indirect.entry(self.name(entry)).or_default().push(offence);
            }
        }
    }

    fn judge_system_call(&mut self, entry: u64, at: u64, number: Option<u64>) {
        const FUTEX: u64 = 202;
        let listed = self.policy.system_calls.iter().find(|(listed, _)| Some(*listed) == number);
        match (listed, number) {
            (Some((number, reason)), _) => {
                self.closure.system_calls.insert(*number, reason);
            }
            (None, Some(FUTEX)) => {
                let what = "makes the system call futex".to_owned();
                self.offend(Rule::Lock, what, entry, at, None);
            }
            (None, Some(number)) => {
                let what = format!("makes the system call {number}");
                self.offend(Rule::SystemCall, what, entry, at, None);
            }
            (None, None) => {
                let what = "makes a system call whose number can't be told".to_owned();
                self.offend(Rule::SystemCall, what, entry, at, None);
            }
        }
    }

    /// Indirect calls are allowed by function and number.
    fn judge_indirect(&mut self) {
        for (function, found) in std::mem::take(&mut self.indirect) {
            let listed = self.policy.indirect.iter().find(|(name, _, _)| *name == function);
            match listed {
                Some((_, count, reason)) if found.len() <= *count => {
                    self.closure.indirect.insert(function, (found.len(), reason));
                }
                _ => self.closure.offences.extend(found),
            }
        }
    }

    /// A check that has seen too little must not pass.
    fn doubt(&mut self) {
        let Policy { functions_min, bytes_min, .. } = *self.policy;
        let closure = &mut self.closure;
        let functions = closure.functions.len();
        if functions < functions_min || closure.bytes < bytes_min {
            closure.doubts.push(format!(
                "only {functions} function(s) with {} bytes of code were reached, at least \
                 {functions_min} with {bytes_min} are plausible: are calls not being followed?",
                closure.bytes
            ));
        }
        for (number, reason) in self.policy.system_calls {
            if !closure.system_calls.contains_key(number) {
                closure.doubts.push(format!(
                    "system call {number} ({reason}) was not found: was part of the handler not \
                     read? If it is gone, take it off the list"
                ));
            }
        }
        for (function, count, reason) in self.policy.indirect {
            let found = closure.indirect.get(*function).map_or(0, |(found, _)| *found);
            let reported = closure.offences.iter().any(|offence| offence.rule == Rule::Indirect);
            if found != *count && !reported {
                closure.doubts.push(format!(
                    "`{function}` was found to make {found} indirect call(s), {count} were \
                     expected ({reason}): was it inlined elsewhere?"
                ));
            }
        }
    }

    fn offend(&mut self, rule: Rule, what: String, entry: u64, at: u64, how: Option<How>) {
        let path = self.path(entry, at, how);
        let offence = Offence { rule, what, path };
        let same = |known: &Offence| {
            let function = |offence: &Offence| offence.path.last().map(|s| s.function.clone());
            known.rule == rule
                && known.what == offence.what
                && how.is_some()
                && function(known) == function(&offence)
        };
        // The same callee from the same function is one thing to mend.
        if !self.closure.offences.iter().any(same) {
            self.closure.offences.push(offence);
        }
    }

    fn name(&self, entry: u64) -> String {
        self.nodes.get(&entry).map(|node| node.name.clone()).unwrap_or_default()
    }

    /// The way from the handler to an instruction of a function that was reached.
    fn path(&self, entry: u64, at: u64, how: Option<How>) -> Vec<Step> {
        let mut path = vec![Step { function: self.name(entry), at, how }];
        let mut node = self.nodes.get(&entry);
        while let Some((caller, at, how)) = node.and_then(|node| node.from) {
            path.push(Step { function: self.name(caller), at, how: Some(how) });
            node = self.nodes.get(&caller);
        }
        path.reverse();
        path
    }
}

/// A symbol as a person wrote it.
fn demangle(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}
