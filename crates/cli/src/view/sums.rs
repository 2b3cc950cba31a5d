//! What a selection adds up to: a tree of stacks, functions, callers and callees.

use std::collections::HashMap;

use super::columns::Columns;
use super::selection::{Filter, Selection, Weights};

/// Nodes of a tree that is sent; the browser holds that many with ease. Of more, the largest.
pub const NODES_MAX: usize = 30_000;

/// Nanoseconds of each node: its own, and with all above it.
#[derive(Debug, Default)]
pub struct Sums {
    pub own: Vec<f64>,
    pub total: Vec<f64>,
}

impl Sums {
    /// Adds a selection up.
    pub fn of(columns: &Columns, selection: &Selection, weights: &Weights) -> Self {
        let mut own = vec![0.0; columns.tree.nodes.len() + 1];
        let nodes = if selection.fold { &columns.rows.folded } else { &columns.rows.full };
        let filter = Filter::new(columns, selection, weights);
        filter.each(selection.value, |_, row, ns| own[nodes[row] as usize] += ns);
        let total = totals(&columns.tree.nodes, &own);
        Self { own, total }
    }

    /// All nanoseconds.
    pub fn whole(&self) -> f64 {
        self.total[0]
    }

    /// What each function has that has anything: its number, its own and all.
    pub fn functions(&self, columns: &Columns) -> Vec<(u32, f64, f64)> {
        let mut sums = vec![(0.0, 0.0); columns.functions.len()];
        for (node, (_, function)) in (1..).zip(&columns.tree.nodes) {
            let sum = &mut sums[*function as usize];
            sum.0 += self.own[node];
            if columns.outermost[node] {
                sum.1 += self.total[node];
            }
        }
        let all = (0_u32..).zip(sums);
        all.filter(|(_, (_, total))| *total > 0.0).map(|(of, (own, all))| (of, own, all)).collect()
    }

    /// Nanoseconds under functions whose names have the word in them, each counted once.
    pub fn matched(&self, columns: &Columns, word: &str) -> f64 {
        let word = word.to_lowercase();
        let functions = columns.functions.iter();
        let marks: Vec<bool> = functions.map(|f| f.name.to_lowercase().contains(&word)).collect();
        let nodes = &columns.tree.nodes;
        let mut covered = vec![false; nodes.len() + 1];
        let mut sum = 0.0;
        for (node, (parent, function)) in (1..).zip(nodes) {
            let above = covered[*parent as usize];
            let own = marks[*function as usize];
            covered[node] = above || own;
            if own && !above {
                sum += self.total[node];
            }
        }
        sum
    }

    /// The tree of what counts, of it the largest nodes above `zoom` and all below.
    pub fn branch(&self, columns: &Columns, zoom: u32) -> Branch {
        let nodes = &columns.tree.nodes;
        let mut inside = vec![zoom == 0; nodes.len() + 1];
        if zoom > 0 {
            mark_inside(nodes, zoom, &mut inside);
        }
        let least = threshold(&self.total, &inside, NODES_MAX);
        let mut branch = Branch::rooted(self.own[0], self.total[0]);
        let mut places = vec![u32::MAX; nodes.len() + 1];
        places[0] = 0;
        for (node, (parent, function)) in (1..).zip(nodes) {
            let (total, parent) = (self.total[node], places[*parent as usize]);
            if total <= 0.0 || parent == u32::MAX || !inside[node] {
                continue;
            }
            if total < least && node != zoom as usize {
                branch.is_cut = true;
                continue;
            }
            places[node] = branch.push(parent, *function, self.own[node], total);
            branch.ids.push(u32::try_from(node).unwrap_or(u32::MAX));
        }
        branch
    }

    /// Callers and callees of a function: the stacks around its outermost calls, laid on top of
    /// each other.
    pub fn sandwich(&self, columns: &Columns, function: u32) -> [Branch; 2] {
        let nodes = &columns.tree.nodes;
        let mut callers = Growing::default();
        let mut callees = Growing::default();
        let mut places = vec![u32::MAX; nodes.len() + 1];
        for (node, (parent, of)) in (1..).zip(nodes) {
            if self.total[node] <= 0.0 {
                continue;
            }
            if *of == function && columns.outermost[node] {
                let mut place = callers.child(0, function);
                let mut next = *parent;
                while next > 0 {
                    let (parent, of) = nodes[next as usize - 1];
                    place = callers.child(place, of);
                    next = parent;
                }
                callers.own[place as usize] += self.total[node];
                places[node] = callees.child(0, function);
            } else if places[*parent as usize] != u32::MAX {
                places[node] = callees.child(places[*parent as usize], *of);
            }
            if places[node] != u32::MAX {
                callees.own[places[node] as usize] += self.own[node];
            }
        }
        [callers.branch(), callees.branch()]
    }
}

/// A tree to be sent: parents come before children, and node 0 is the root.
#[derive(Debug, Default)]
pub struct Branch {
    pub parents: Vec<u32>,
    pub functions: Vec<u32>,
    pub own: Vec<f64>,
    pub total: Vec<f64>,
    /// The numbers of the nodes after the root by which they can be asked for; none if they can't.
    pub ids: Vec<u32>,
    /// Whether something was too small to be sent.
    pub is_cut: bool,
}

impl Branch {
    fn rooted(own: f64, total: f64) -> Self {
        let (parents, functions) = (vec![0], vec![0]);
        let (own, total) = (vec![own], vec![total]);
        Self { parents, functions, own, total, ids: Vec::new(), is_cut: false }
    }

    fn push(&mut self, parent: u32, function: u32, own: f64, total: f64) -> u32 {
        self.parents.push(parent);
        self.functions.push(function);
        self.own.push(own);
        self.total.push(total);
        u32::try_from(self.parents.len() - 1).unwrap_or(u32::MAX)
    }
}

/// A tree that grows.
struct Growing {
    nodes: Vec<(u32, u32)>,
    own: Vec<f64>,
    places: HashMap<(u32, u32), u32>,
}

impl Default for Growing {
    fn default() -> Self {
        Self { nodes: Vec::new(), own: vec![0.0], places: HashMap::new() }
    }
}

impl Growing {
    fn child(&mut self, parent: u32, function: u32) -> u32 {
        *self.places.entry((parent, function)).or_insert_with(|| {
            self.nodes.push((parent, function));
            self.own.push(0.0);
            u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
        })
    }

    fn branch(self) -> Branch {
        let total = totals(&self.nodes, &self.own);
        let least = threshold(&total, &vec![true; total.len()], NODES_MAX);
        let mut branch = Branch::rooted(self.own[0], total[0]);
        let mut places = vec![u32::MAX; total.len()];
        places[0] = 0;
        for (node, (parent, function)) in (1..).zip(&self.nodes) {
            let parent = places[*parent as usize];
            if parent == u32::MAX || total[node] < least {
                branch.is_cut = true;
                continue;
            }
            places[node] = branch.push(parent, *function, self.own[node], total[node]);
        }
        branch
    }
}

/// With all above: parents come before their children.
fn totals(nodes: &[(u32, u32)], own: &[f64]) -> Vec<f64> {
    let mut total = own.to_vec();
    for (node, (parent, _)) in (1..nodes.len() + 1).zip(nodes).rev() {
        total[*parent as usize] += total[node];
    }
    total
}

/// Marks a node with all below it on the way to the root, and all above it.
fn mark_inside(nodes: &[(u32, u32)], zoom: u32, inside: &mut [bool]) {
    let mut next = zoom;
    while next > 0 {
        inside[next as usize] = true;
        next = nodes.get(next as usize - 1).map_or(0, |(parent, _)| *parent);
    }
    inside[0] = true;
    let mut above = vec![false; inside.len()];
    if let Some(mark) = above.get_mut(zoom as usize) {
        *mark = true;
    }
    for (node, (parent, _)) in (1..).zip(nodes) {
        if above[*parent as usize] {
            above[node] = true;
            inside[node] = true;
        }
    }
}

/// The least total of a node that is sent, so that no more are than that.
fn threshold(total: &[f64], inside: &[bool], count: usize) -> f64 {
    let all = total.iter().zip(inside).filter(|(total, inside)| **total > 0.0 && **inside);
    let mut all: Vec<f64> = all.map(|(total, _)| *total).collect();
    if all.len() <= count {
        return 0.0;
    }
    let (_, least, _) = all.select_nth_unstable_by(count, |a, b| b.total_cmp(a));
    // Of equal ones, none: there might be any number.
    least.next_up()
}
