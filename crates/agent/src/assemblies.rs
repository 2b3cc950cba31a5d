//! The assemblies that methods come from, asked for once each.

use std::collections::HashMap;
use std::sync::Arc;

use clr::{Info, ModuleId};
use engine::Assembly;
use metadata::DebugDirectory;
use sys::memory::copy_own;

/// Entries that are kept; then all are asked for anew.
const KNOWN_MAX: usize = 4096;

/// Those that are known, until they are unloaded.
#[derive(Default)]
pub struct Assemblies {
    /// By the runtime's number, which may be given again.
    known: HashMap<ModuleId, Arc<Assembly>>,
}

impl Assemblies {
    /// A module's assembly.
    pub fn of(&mut self, info: &Info, module: ModuleId) -> Arc<Assembly> {
        if let Some(assembly) = self.known.get(&module) {
            return Arc::clone(assembly);
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let assembly = Arc::new(read(info, module));
        Arc::clone(self.known.entry(module).or_insert(assembly))
    }

    /// The runtime's number of a module may soon be another one's.
    pub fn forget(&mut self, module: ModuleId) {
        self.known.remove(&module);
    }

    /// Any of the numbers may be another one's.
    pub fn forget_all(&mut self) {
        self.known.clear();
    }
}

/// The id of its PDB is that of its image in memory: its file may be another one by now, or be
/// inside of the executable.
fn read(info: &Info, module: ModuleId) -> Assembly {
    let Some(module) = info.module(module) else { return Assembly::default() };
    let base = module.base as u64;
    let read = |offset: u64, buffer: &mut [u8]| {
        copy_own(base.saturating_add(offset), buffer) == buffer.len()
    };
    let directory = (base != 0).then(|| DebugDirectory::read(read)).flatten();
    let id = directory.and_then(|directory| directory.id);
    let build_id = id.map(|id| id.to_string()).unwrap_or_default();
    Assembly { file: module.path, build_id }
}
