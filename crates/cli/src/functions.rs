//! The functions of a profile as other programs want them: one for each name in each module.

use std::collections::HashMap;

use profile::{FrameIndex, Location, Profile};

use crate::origin::Origin;
use crate::ranking;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Its name.
    pub name: &'a str,
    /// The file name of its module; empty if it has none.
    pub module: &'a str,
    /// Its source file; empty if unknown. Of equal functions, that of the first.
    pub file: &'a str,
    /// Whose code it is.
    pub origin: Origin,
}

/// All functions, and which one each frame is of.
#[derive(Debug)]
pub struct Functions<'a> {
    /// The functions, in the order of their first frames.
    pub list: Vec<Named<'a>>,
    of_frames: Vec<u32>,
}

impl<'a> Functions<'a> {
    /// Those of a profile.
    pub fn of(profile: &'a Profile) -> Self {
        let mut list = Vec::new();
        let mut positions: HashMap<(&str, &str), u32> = HashMap::new();
        let position = |frame| {
            let named = named(profile, frame);
            *positions.entry((named.name, named.module)).or_insert_with(|| {
                list.push(named);
                u32::try_from(list.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let of_frames = profile.frames.iter().map(position).collect();
        Self { list, of_frames }
    }

    /// The positions of all frames' functions, in the order of the frames.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.of_frames.iter().map(|position| *position as usize)
    }

    /// The position in `list` of a frame's function.
    pub fn position(&self, frame: FrameIndex) -> usize {
        self.of_frames.get(frame.get()).map_or(0, |position| *position as usize)
    }
}

fn named<'a>(profile: &'a Profile, frame: &Location) -> Named<'a> {
    let function = profile.functions.get(frame.function.get());
    let name = function.map_or("?", |function| profile.text(function.name));
    let module = frame.module.and_then(|module| profile.modules.get(module.get()));
    let module = ranking::file_name(module.map_or("", |module| profile.text(module.file)));
    let file = function.map_or("", |function| profile.text(function.file));
    let origin = Origin::of(function.and_then(|function| function.kind), name, module);
    Named { name, module, file, origin }
}
