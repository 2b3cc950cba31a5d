//! Which IL a run of machine code is of: what source lines are found by.

use std::ops::Range;

use crate::runtime::IlStep;

/// Stands for code that the compiler needed for itself.
const NONE: u32 = u32::MAX;

/// The IL offsets of a run of code. A run that nobody knows the IL of has no steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IlMap {
    /// Offsets of machine code from the run's start, rising, and the IL offset from there on.
    steps: Box<[(u32, u32)]>,
}

impl IlMap {
    /// The part of a method's map that is of one run, the steps being in any order.
    #[must_use]
    pub fn of_run(run: Range<u64>, all: &[IlStep]) -> Self {
        let own = all.iter().filter(|step| run.contains(&step.address));
        let offset = |step: &IlStep| u32::try_from(step.address.wrapping_sub(run.start)).ok();
        let mut steps: Vec<_> =
            own.filter_map(|step| Some((offset(step)?, step.il.unwrap_or(NONE)))).collect();
        steps.sort_by_key(|(offset, _)| *offset);
        steps.dedup_by(|next, step| next.1 == step.1);
        Self { steps: steps.into_boxed_slice() }
    }

    /// The IL offset of the instruction so many bytes from the run's start.
    #[must_use]
    pub fn at(&self, offset: u64) -> Option<u32> {
        let next = self.steps.partition_point(|(start, _)| u64::from(*start) <= offset);
        let (_, il) = self.steps.get(next.checked_sub(1)?)?;
        (*il != NONE).then_some(*il)
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.steps.len().saturating_mul(size_of::<(u32, u32)>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_its_own_part() {
        let step = |address, il| IlStep { address, il };
        let all = [step(110, Some(7)), step(100, Some(0)), step(120, Some(7)), step(130, None)];
        let all: Vec<_> = all.into_iter().chain([step(500, Some(9)), step(90, Some(1))]).collect();
        let map = IlMap::of_run(100..200, &all);
        let found: Vec<_> = [0, 9, 10, 29, 30, 99].map(|offset| map.at(offset)).into();
        assert_eq!(found, [Some(0), Some(0), Some(7), Some(7), None, None]);
        assert_eq!(map.bytes(), 3 * 8, "equal neighbours are one");
        assert_eq!(IlMap::of_run(490..510, &all).at(5), None, "before the first step");
        assert_eq!(IlMap::of_run(490..510, &all).at(10), Some(9));
        assert_eq!(IlMap::default().at(3), None);
    }
}
