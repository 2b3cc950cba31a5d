//! Stacks of functions as one tree, and the two that a sample has: all frames, and those that
//! `corprof top` shows.

use std::collections::HashMap;
use std::hash::Hash;

use model::ThreadState;
use profile::{FrameIndex, Profile, Sample, StackIndex};

use crate::focus::{Focus, Scope};

/// The tree of all stacks, by functions. Node 0 is the root of all.
#[derive(Debug, Default)]
pub struct Tree {
    positions: HashMap<(u32, u32), u32>,
    /// Parent and function of all nodes but the root.
    pub nodes: Vec<(u32, u32)>,
}

impl Tree {
    /// The node of a stack, the root first.
    pub fn node(&mut self, functions: impl Iterator<Item = u32>) -> u32 {
        functions.fold(0, |parent, function| self.child(parent, function))
    }

    /// The node of a function that this one calls.
    pub fn child(&mut self, parent: u32, function: u32) -> u32 {
        *self.positions.entry((parent, function)).or_insert_with(|| {
            self.nodes.push((parent, function));
            number(self.nodes.len())
        })
    }
}

/// What has been told before gets its number again.
#[derive(Debug)]
pub struct Numbered<T> {
    positions: HashMap<T, u32>,
    /// All things, by their numbers.
    pub list: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { positions: HashMap::new(), list: Vec::new() }
    }
}

impl<T: Hash + Eq + Clone> Numbered<T> {
    /// The number of a thing, from 0 on.
    pub fn number(&mut self, thing: T) -> u32 {
        *self.positions.entry(thing.clone()).or_insert_with(|| {
            self.list.push(thing);
            number(self.list.len() - 1)
        })
    }
}

/// The stacks of a sample, as nodes of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stacks {
    /// All frames.
    pub full: u32,
    /// What `corprof top` shows, and the method whose own time it is.
    pub folded: u32,
    /// Whether the thread waited for work, whose wall time `corprof top` leaves out.
    pub is_idle: bool,
    /// The frame whose own time it is.
    pub own: Option<FrameIndex>,
}

/// Puts the samples' stacks of one profile into a tree.
pub struct Planter<'a> {
    focus: Focus<'a>,
    /// The function of each frame, as the tree has it.
    functions: Vec<u32>,
    /// The node of each stack of the profile.
    full: Vec<u32>,
    /// What is known already: folding depends on the stack and the state alone.
    known: HashMap<(StackIndex, Option<ThreadState>), Stacks>,
}

impl<'a> Planter<'a> {
    /// For a profile whose frames are of these functions.
    pub fn new(profile: &'a Profile, functions: Vec<u32>, tree: &mut Tree) -> Self {
        let mut full: Vec<u32> = Vec::with_capacity(profile.stacks.len());
        for node in &profile.stacks {
            // A parent lies before its child.
            let parent = node.parent.and_then(|parent| full.get(parent.get()).copied());
            let function = functions.get(node.frame.get()).copied().unwrap_or_default();
            full.push(tree.child(parent.unwrap_or_default(), function));
        }
        let focus = Focus::new(profile, Scope::Work);
        Self { focus, functions, full, known: HashMap::new() }
    }

    /// The stacks of a sample.
    pub fn stacks(&mut self, sample: &Sample, tree: &mut Tree) -> Stacks {
        let full = self.full.get(sample.stack.get()).copied().unwrap_or_default();
        let key = (sample.stack, sample.state);
        let stacks = match self.known.get(&key) {
            Some(known) => *known,
            None => {
                let stacks = self.look(sample, full, tree);
                self.known.insert(key, stacks);
                stacks
            }
        };
        Stacks { is_idle: stacks.is_idle && sample.values.wall_ns > 0, ..stacks }
    }

    fn look(&mut self, sample: &Sample, full: u32, tree: &mut Tree) -> Stacks {
        let functions = &self.functions;
        let of = |frame: FrameIndex| functions.get(frame.get()).copied().unwrap_or_default();
        // Whether it waits for work is asked of a sample that has some time to leave out.
        let mut asked = *sample;
        asked.values.wall_ns = 1;
        let seen = self.focus.see(&asked);
        // The method whose own time it is stays, even if it only passes work on.
        let own = seen.own.filter(|own| seen.frames.first() != Some(own)).map(of);
        let folded = tree.node(seen.frames.iter().rev().copied().map(of).chain(own));
        Stacks { full, folded, is_idle: seen.values.wall_ns == 0, own: seen.own }
    }
}

/// A position; a profile that has more things than fit would not fit in memory.
pub fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
