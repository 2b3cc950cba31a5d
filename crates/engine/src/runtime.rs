//! What the engine asks of a managed runtime. The agent answers with CoreCLR, a test with a table.

use std::sync::Arc;

/// A method's code, as one compiled version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Which module it came from; used to forget its code when that is unloaded.
    pub module: ModuleKey,
    /// First address of this version.
    pub start: u64,
    /// All its runs of code, as first and one-past-last address; the first begins at `start`.
    pub ranges: Vec<(u64, u64)>,
    /// First addresses of the method's other compiled versions.
    pub siblings: Vec<u64>,
    /// Which IL its machine code is of, by address; empty if nobody knows.
    pub il: Vec<IlStep>,
}

/// From an address on, machine code is of one IL instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IlStep {
    /// First address.
    pub address: u64,
    /// The instruction's offset in the method's IL; `None` where the compiler needed the code for
    /// itself.
    pub il: Option<u32>,
}

/// An assembly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Assembly {
    /// Path of its file, or its name; empty for dynamic methods.
    pub file: String,
    /// The id of its PDB, in hexadecimal digits; empty if it names none.
    pub build_id: String,
}

/// The runtime's number for a module; dynamic methods have their own number as module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleKey(pub usize);

/// A method's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodName {
    /// For a person.
    pub display: String,
    /// As the metadata has it.
    pub raw: String,
    /// Where it comes from.
    pub assembly: Arc<Assembly>,
    /// Its token in the assembly's metadata; 0 for dynamic methods.
    pub token: u32,
}

/// A managed runtime in this process. Called on the engine's own thread only.
pub trait Runtime: Send + Sync {
    /// The code that an address lies in and its method's names; `None` where the runtime has no
    /// method. In one call, since the runtime's numbers are good only until something is unloaded.
    fn look_up(&self, address: u64) -> Option<(Code, Option<MethodName>)>;
    /// The runtime's number for the method at an address, if its own walker reports such frames.
    #[cfg(feature = "oracle")]
    fn reported(&self, address: u64) -> Option<usize>;
    /// What it is, such as `CoreCLR 8.0.4`.
    fn version(&self) -> String;
}
