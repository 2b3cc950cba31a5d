//! A whole method: its prologue and body, and its exception handlers.
//!
//! `catch`, `filter`, `finally` and `fault` blocks are compiled as functions of their own
//! ("funclets"), which lie behind the method's body in the same run of code, each with a prologue.
//! Up to .NET 9 a funclet saves `rbp`, then loads the method's; from .NET 10 on it finds the
//! method's in `rbp` and leaves it alone. Either way `rbp` says nothing about the funclet's own
//! frame, so its rules go by `rsp`.

use model::limits::METHOD_CODE_BYTES_MAX;
use signal::rule::{Cfa, Rule};

use crate::managed::instruction::{Instruction, Kind};
use crate::managed::prologue::{Prologue, Shape, Step};

/// The unwind rules of one method's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// The kind of frame of the method itself, not of its funclets.
    pub shape: Shape,
    /// Ascending; the first is at 0, the last holds to the end.
    pub steps: Vec<Step>,
    /// How many funclets were found.
    pub funclets: usize,
    /// How much of the code was read, bytes. Less than there is if an instruction is not known, or
    /// if there is more than `limits::METHOD_CODE_BYTES_MAX`; a funclet behind it is not seen.
    pub read: usize,
}

impl Method {
    /// Reads a method's code from its first byte. `tier0_m` is the M of [`Shape::Framed`] that
    /// reading the method's unoptimised version gave; only an on-stack-replacement version needs
    /// it.
    #[must_use]
    pub fn read(code: &[u8], tier0_m: Option<i32>) -> Self {
        let code = code.get(..METHOD_CODE_BYTES_MAX.min(code.len())).unwrap_or_default();
        let Prologue { shape, steps, len } = Prologue::read(code, tier0_m);
        let mut method = Self { shape, steps, funclets: 0, read: len };
        let mut sp_moves = false;
        let mut flow_ended = false;
        while let Some(next) = code.get(method.read..).and_then(Instruction::decode) {
            let moves = matches!(next.kind, Kind::SubSp(_) | Kind::OtherSp);
            if flow_ended && matches!(next.kind, Kind::Push(_) | Kind::SubSp(_)) {
                method.funclet(code);
                flow_ended = false;
                continue;
            }
            sp_moves |= moves && method.funclets == 0;
            method.read = method.read.saturating_add(next.len);
            flow_ended = match next.kind {
                Kind::EndsFlow | Kind::Call => true,
                Kind::Nop => flow_ended,
                _ => false,
            };
        }
        if sp_moves {
            method.distrust_sp();
        }
        method
    }

    /// Reads the funclet that starts where the reader stands.
    fn funclet(&mut self, code: &[u8]) {
        let Some(rest) = code.get(self.read..) else { return };
        let funclet = Prologue::read(rest, None);
        let start = self.read;
        self.steps.extend(
            funclet
                .steps
                .iter()
                .map(|step| Step { offset: step.offset.saturating_add(start), rule: step.rule }),
        );
        self.funclets = self.funclets.saturating_add(1);
        // A funclet begins with an instruction of a prologue, so this is never 0.
        self.read = start.saturating_add(funclet.len.max(1));
    }

    /// The body moves `rsp`: only the frame pointer counts.
    fn distrust_sp(&mut self) {
        for step in &mut self.steps {
            if let Rule { cfa: Cfa::BpOrSp { bp_offset, .. }, bp } = step.rule {
                step.rule = Rule { cfa: Cfa::Bp(bp_offset), bp };
            }
        }
    }
}
