//! The one function of CoreCLR whose unwind data is wrong, and why it matters.
//!
//! To stop a thread for a collection, the runtime can overwrite a return address on its stack with
//! the address of a routine (`OnHijackTripThread`). The routine is so entered by a `ret`, with no
//! return address on the stack. It pushes `rax` to make room for the true one, then all registers,
//! and calls a C++ function, which writes the true return address into that room and waits. Its
//! unwind data counts as if it had been called: eight bytes too many at every instruction, and it
//! does not tell that `rbp` is saved. Threads stand there during collections, so it is put right.
//!
//! The routine is known by its beginning, the same in .NET 8, 9 and 10: no compiler pushes `rax`
//! before the callee-saved registers.

use signal::rule::{Cfa, Rule, SavedBp};

use crate::bytes::ReadMemory;

/// `push rax; push rbp; push rbx; push r15; push r14; push r13; push r12`.
const START: [u8; 11] = [0x50, 0x55, 0x53, 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54];
/// The stack's growth that its data tells of after the first two pushes, as offsets and CFAs.
const FIRST_ROWS: [(u64, i32); 3] = [(0, 8), (1, 16), (2, 24)];

/// Puts the rows right if they are that routine's. Returns whether they were.
pub fn mend(rows: &mut [(u64, Rule)], read_memory: ReadMemory) -> bool {
    let Some((start, _)) = rows.first().copied() else { return false };
    // The rows are looked at first: they are at hand, the code costs a system call.
    let alike = |((at, rule), (offset, size)): (&(u64, Rule), &(u64, i32))| {
        *at == start.wrapping_add(*offset)
            && *rule == Rule { cfa: Cfa::Sp(*size), bp: SavedBp::Same }
    };
    if rows.len() <= FIRST_ROWS.len() || !rows.iter().zip(&FIRST_ROWS).all(alike) {
        return false;
    }
    let mut code = [0; START.len()];
    if read_memory(start, &mut code) < code.len() || code != START {
        return false;
    }
    for (_, rule) in rows {
        *rule = match rule.cfa {
            // Not pushed yet, or popped again: the true return address is nowhere on the stack.
            Cfa::Sp(size) if size <= 8 => Rule::UNSUPPORTED,
            Cfa::Sp(16) => Rule { cfa: Cfa::Sp(8), bp: SavedBp::Same },
            Cfa::Sp(size) => Rule { cfa: Cfa::Sp(size.saturating_sub(8)), bp: SavedBp::AtCfa(-16) },
            _ => *rule,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sizes: &[(u64, i32)]) -> Vec<(u64, Rule)> {
        let rule = |size| Rule { cfa: Cfa::Sp(size), bp: SavedBp::Same };
        sizes.iter().map(|(offset, size)| (0x1000 + offset, rule(*size))).collect()
    }

    fn hijacker(_: u64, code: &mut [u8]) -> usize {
        code.copy_from_slice(&START[..code.len()]);
        code.len()
    }

    fn other(_: u64, code: &mut [u8]) -> usize {
        code.fill(0x50);
        code.len()
    }

    #[test]
    fn only_the_hijacker_is_mended() {
        let sizes = [(0, 8), (1, 16), (2, 24), (3, 32), (0x15, 120), (0x41, 8)];
        let mut mended = rows(&sizes);
        assert!(mend(&mut mended, hijacker));
        let cfas: Vec<Cfa> = mended.iter().map(|(_, rule)| rule.cfa).collect();
        use Cfa::{Sp, Unsupported};
        assert_eq!(cfas, [Unsupported, Sp(8), Sp(16), Sp(24), Sp(112), Unsupported]);
        assert_eq!(mended[1].1.bp, SavedBp::Same);
        assert_eq!(mended[4].1.bp, SavedBp::AtCfa(-16));

        let mut same = rows(&sizes);
        assert!(!mend(&mut same, other));
        assert_eq!(same, rows(&sizes));
        let mut ordinary = rows(&[(0, 8), (1, 16), (4, 24), (6, 32)]);
        assert!(!mend(&mut ordinary, hijacker));
        assert!(!mend(&mut [], hijacker));
    }
}
