//! From metadata to a name a person would write.
//!
//! The input is what the runtime knows of a method: its token, its metadata (seen through the trait
//! [`Metadata`]), and the generic arguments it runs with. The output is the name its author would
//! recognise: `OrderService.LoadAsync(int)` for a state machine's `MoveNext`, `lambda 0 in
//! X.Run()`, `Dictionary<TKey, TValue>.TryInsert(TKey, TValue, InsertionBehavior)`.
//!
//! The crate opens no file, reads no clock and knows no COM. It runs inside the customer's process
//! on bytes that anybody may have produced (obfuscators, `System.Reflection.Emit`): reads are
//! checked, recursion, work and length are bounded, and what cannot be read is shown as `…`.
#![forbid(unsafe_code)]
// No panic path: all of this runs inside the customer's process.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::string_slice, clippy::arithmetic_side_effects)
)]

mod display;
mod dynamic;
mod metadata;
mod pdb_id;

mod mangling;
mod member;
mod path;
mod spelling;

mod attribute;
mod blob;
mod signature;
mod text;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod hostile;

pub use display::{MethodName, display};
pub use dynamic::dynamic_name;
pub use metadata::{Direction, Metadata, Method, Token, TypeDef, TypeRef};
pub use pdb_id::{DebugDirectory, PdbId};
pub use signature::{Convention, MethodSignature, Type};
pub use spelling::{TypeArg, type_argument};
