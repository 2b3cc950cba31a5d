//! A method's names, from the runtime's numbers and its module's metadata.

use std::sync::Arc;

use clr::{ClassId, FunctionId, FunctionInfo, Info};
use engine::{MethodName, ModuleKey};
use metadata::{Metadata, Token, TypeArg, dynamic_name, type_argument};

use crate::assemblies::Assemblies;

/// Generic arguments inside generic arguments, as deep as names go.
const ARGUMENT_DEPTH_MAX: usize = 4;
/// `ELEMENT_TYPE_*` of the primitive types that an array can be of (ECMA-335 II.23.1.16).
const ELEMENTS: [(u32, &str); 16] = [
    (0x02, "bool"),
    (0x03, "char"),
    (0x04, "sbyte"),
    (0x05, "byte"),
    (0x06, "short"),
    (0x07, "ushort"),
    (0x08, "int"),
    (0x09, "uint"),
    (0x0a, "long"),
    (0x0b, "ulong"),
    (0x0c, "float"),
    (0x0d, "double"),
    (0x0e, "string"),
    (0x18, "nint"),
    (0x19, "nuint"),
    (0x1c, "object"),
];

/// The module that a method belongs to, and its names. A dynamic method is its own module.
pub fn of(
    info: &Info,
    function: FunctionId,
    assemblies: &mut Assemblies,
) -> (ModuleKey, Option<MethodName>) {
    if info.is_dynamic(function) {
        return (ModuleKey(function.0), dynamic(info, function));
    }
    match info.function(function) {
        Some(known) => (ModuleKey(known.module.0), from_metadata(info, &known, assemblies)),
        None => (ModuleKey(function.0), None),
    }
}

fn dynamic(info: &Info, function: FunctionId) -> Option<MethodName> {
    let found = info.dynamic_function(function)?;
    let name = dynamic_name(&found.name, &found.signature);
    Some(MethodName { display: name.full, raw: found.name, assembly: Arc::default(), token: 0 })
}

fn from_metadata(
    info: &Info,
    known: &FunctionInfo,
    assemblies: &mut Assemblies,
) -> Option<MethodName> {
    let metadata = info.metadata(known.module)?;
    let token = Token(known.token);
    let type_args: Vec<TypeArg> = match known.class.and_then(|class| info.class(class)) {
        Some(class) => class.type_args.iter().map(|arg| type_arg(info, *arg, 0)).collect(),
        None => Vec::new(),
    };
    let method_args: Vec<TypeArg> =
        known.type_args.iter().map(|arg| type_arg(info, *arg, 0)).collect();
    let name = metadata::display(&metadata, token, &type_args, &method_args)?;
    Some(MethodName {
        display: name.full,
        raw: raw_name(&metadata, token),
        assembly: assemblies.of(info, known.module),
        token: known.token,
    })
}

/// `Namespace.Outer+Nested.Method`, as the metadata has it.
fn raw_name(metadata: &dyn Metadata, method: Token) -> String {
    let Some(row) = metadata.method(method) else { return String::new() };
    let mut parts = vec![format!(".{}", row.name)];
    let mut class = Some(row.parent);
    // A type is nested in finitely many, but metadata can lie.
    for _ in 0..ARGUMENT_DEPTH_MAX.saturating_mul(4) {
        let Some(def) = class.and_then(|token| metadata.type_def(token)) else { break };
        let plus = if def.enclosing.is_some() { "+" } else { "" };
        parts.push(format!("{plus}{}", def.name));
        class = def.enclosing;
    }
    parts.into_iter().rev().collect()
}

/// A generic argument's display name.
fn type_arg(info: &Info, class: ClassId, depth: usize) -> TypeArg {
    const UNKNOWN: &str = "…";
    let deeper = depth.saturating_add(1);
    if deeper > ARGUMENT_DEPTH_MAX {
        return TypeArg::Known(UNKNOWN.to_owned());
    }
    if let Some((element, element_class, rank)) = info.array(class) {
        let element = match element_class {
            Some(class) => type_arg(info, class, deeper),
            None => primitive(element),
        };
        return element.array(rank);
    }
    let Some(found) = info.class(class) else { return TypeArg::Known(UNKNOWN.to_owned()) };
    let Some(metadata) = info.metadata(found.module) else {
        return TypeArg::Known(UNKNOWN.to_owned());
    };
    let args: Vec<TypeArg> =
        found.type_args.iter().map(|arg| type_arg(info, *arg, deeper)).collect();
    type_argument(&metadata, Token(found.token), &args)
}

fn primitive(element: u32) -> TypeArg {
    let name = ELEMENTS.iter().find(|(number, _)| *number == element).map(|(_, name)| *name);
    TypeArg::Known(name.unwrap_or("…").to_owned())
}
