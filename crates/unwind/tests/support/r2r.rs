//! The precompiled code of a .NET assembly with the unwind codes that its compiler wrote: an
//! oracle for what is read off the code alone.

/// One entry of the runtime functions table: a method's body, or a funclet.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    pub begin: u32,
    pub end: u32,
    pub unwind: u32,
}

/// A precompiled image.
pub struct Image {
    data: Vec<u8>,
    /// (address, size in memory, offset in the file), relative to the image's base.
    sections: Vec<(u32, u32, u32)>,
    pub functions: Vec<Function>,
}

/// The truth about one instruction: where the CFA and the caller's `rbp` are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    /// CFA minus `rsp`, bytes.
    pub size: i32,
    /// The caller's `rbp` at CFA plus this, if it was pushed.
    pub bp: Option<i32>,
}

/// What the unwind codes say.
pub struct Unwind {
    /// (offset behind the instruction, truth from there), ascending, from offset 0.
    pub steps: Vec<(usize, Truth)>,
    /// Offset behind the instruction that sets the frame pointer, and `rbp` minus `rsp` then.
    pub frame: Option<(usize, i32)>,
    pub prologue: usize,
}

impl Unwind {
    pub fn at(&self, offset: usize) -> Truth {
        self.steps.iter().rev().find(|step| step.0 <= offset).unwrap().1
    }
}

fn u16_at(data: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(data[at..at + 2].try_into().unwrap())
}

fn u32_at(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(data[at..at + 4].try_into().unwrap())
}

impl Image {
    /// `None` if the file has no precompiled x86-64 code for System V.
    pub fn read(data: Vec<u8>) -> Option<Self> {
        if data.get(..2)? != b"MZ" {
            return None;
        }
        let pe = u32_at(&data, 0x3c) as usize;
        // The machine is XORed with the operating system: Linux 0x7b79.
        if u16_at(&data, pe + 4) != 0x8664 ^ 0x7b79 {
            return None;
        }
        let optional = pe + 24;
        let table = optional + usize::from(u16_at(&data, pe + 20));
        let sections = (0..usize::from(u16_at(&data, pe + 6)))
            .map(|index| table + 40 * index)
            .map(|at| {
                let size = u32_at(&data, at + 8).max(u32_at(&data, at + 16));
                (u32_at(&data, at + 12), size, u32_at(&data, at + 20))
            })
            .collect();
        let mut image = Self { data, sections, functions: Vec::new() };
        let cor = image.offset(u32_at(&image.data, optional + 112 + 14 * 8))?;
        let native = image.offset(u32_at(&image.data, cor + 64))?;
        let count = u32_at(&image.data, native + 12) as usize;
        let (rva, size) = (0..count)
            .map(|index| native + 16 + 12 * index)
            .find(|at| u32_at(&image.data, *at) == 102)
            .map(|at| (u32_at(&image.data, at + 4), u32_at(&image.data, at + 8)))?;
        let start = image.offset(rva)?;
        image.functions = (0..size as usize / 12)
            .map(|index| start + 12 * index)
            .map(|at| Function {
                begin: u32_at(&image.data, at),
                end: u32_at(&image.data, at + 4),
                unwind: u32_at(&image.data, at + 8),
            })
            .collect();
        Some(image)
    }

    fn offset(&self, rva: u32) -> Option<usize> {
        let (start, _, file) =
            self.sections.iter().find(|(start, size, _)| (*start..start + size).contains(&rva))?;
        Some((rva - start + file) as usize)
    }

    pub fn code(&self, begin: u32, end: u32) -> &[u8] {
        let start = self.offset(begin).unwrap();
        &self.data[start..start + (end - begin) as usize]
    }

    /// Methods with their funclets: a funclet begins where the one before it ends; a method is
    /// aligned.
    pub fn methods(&self) -> Vec<&[Function]> {
        self.functions.chunk_by(|a, b| a.end == b.begin && b.begin % 16 != 0).collect()
    }

    pub fn unwind(&self, function: Function) -> Unwind {
        let at = self.offset(function.unwind).unwrap();
        let info = &self.data[at..];
        let (prologue, count) = (usize::from(info[1]), usize::from(info[2]));
        let codes: Vec<u16> = (0..count).map(|index| u16_at(info, 4 + 2 * index)).collect();
        let mut operations = Vec::new();
        let mut index = 0;
        while index < codes.len() {
            let code = codes[index];
            let (offset, operation, extra) = (usize::from(code & 0xff), code >> 8 & 15, code >> 12);
            let wide = |slot: usize| {
                u32::from(codes[index + slot]) | u32::from(codes[index + slot + 1]) << 16
            };
            let (operand, slots) = match operation {
                0 => (u32::from(extra), 1),
                1 if extra == 0 => (u32::from(codes[index + 1]) * 8, 2),
                1 => (wide(1), 3),
                2 => (u32::from(extra) * 8 + 8, 1),
                3 => (u32::from(info[3] >> 4) * 16, 1),
                // The runtime's own code for frame offsets of more than 240 bytes.
                11 => (wide(1) * 16, 3),
                other => panic!("unwind code {other}"),
            };
            operations.push((offset, operation, operand));
            index += slots;
        }
        let mut truth = Truth { size: 8, bp: None };
        let (mut steps, mut frame) = (vec![(0, truth)], None);
        for (offset, operation, operand) in operations.into_iter().rev() {
            match operation {
                0 => {
                    truth.size += 8;
                    if operand == 5 {
                        truth.bp = Some(-truth.size);
                    }
                }
                1 | 2 => truth.size += operand as i32,
                _ => frame = Some((offset, operand as i32)),
            }
            steps.push((offset, truth));
        }
        Unwind { steps, frame, prologue }
    }
}
