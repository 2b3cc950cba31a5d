//! What a function does after it has set its frame pointer, read off its instructions: unwind data
//! does not tell how far the stack pointer is from the frame's end then.
//!
//! Only a walk that starts without a frame pointer wants it, for one function mostly, and none
//! wants it in a handler. So it is read when it is asked for: for all functions of all modules it
//! would be tens of megabytes of code, at each start.

use signal::walk::Prologue;

use crate::bytes::ReadMemory;
use crate::managed::instruction::{Instruction, Kind};

/// Six pushes of two bytes and a long `sub`.
const BYTES: usize = 24;

/// The end of a prologue that has just set its frame pointer, at that address: pushes, then one
/// `sub rsp`. `None` if its code can't be had.
#[must_use]
pub fn read(set_at: u64, read_memory: ReadMemory) -> Option<Prologue> {
    let mut code = [0; BYTES];
    let read = read_memory(set_at, &mut code);
    let mut code = code.get(..read).filter(|code| !code.is_empty())?;
    // The frame pointer and the return address.
    let mut prologue = Prologue { body: set_at, sp_offset: 16 };
    while let Some(next) = Instruction::decode(code) {
        let (grown, last) = match next.kind {
            Kind::Push(_) => (8, false),
            Kind::SubSp(bytes) => (bytes, true),
            _ => break,
        };
        prologue.sp_offset = prologue.sp_offset.saturating_add(grown);
        prologue.body = prologue.body.saturating_add(next.len as u64);
        code = code.get(next.len..).unwrap_or_default();
        if last {
            break;
        }
    }
    Some(prologue)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `push r15; push rbx; sub rsp, 0x28; push rax`, and nothing below or above.
    fn memory(address: u64, room: &mut [u8]) -> usize {
        const CODE: [u8; 8] = [0x41, 0x57, 0x53, 0x48, 0x83, 0xec, 0x28, 0x50];
        let rest = address.checked_sub(0x1000).and_then(|offset| CODE.get(offset as usize..));
        let rest = rest.unwrap_or_default();
        room.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
        rest.len().min(room.len())
    }

    #[test]
    fn pushes_and_one_subtraction() {
        let at = |address| read(address, memory).map(|p| (p.body, p.sp_offset));
        assert_eq!(at(0x1000), Some((0x1007, 16 + 8 + 8 + 0x28)));
        assert_eq!(at(0x1003), Some((0x1007, 16 + 0x28)));
        assert_eq!(at(0x1007), Some((0x1008, 16 + 8)));
        assert_eq!(at(0x1001), Some((0x1007, 16 + 8 + 8 + 0x28)), "another push");
        assert_eq!(at(0x2000), None);
    }
}
