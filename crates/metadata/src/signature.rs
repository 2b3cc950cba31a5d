//! Signature blobs (ECMA-335 II.23.2) to a tree of types.
//!
//! Decoding gives what could be read: where a blob ends early, is malformed or nests deeper than
//! `SIGNATURE_DEPTH_MAX`, the type there is [`Type::Unknown`] and nothing after it is read.

use model::limits::SIGNATURE_DEPTH_MAX;

use crate::blob::Blob;
use crate::metadata::Token;

/// A type in a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A type with a keyword of its own in C#, by that keyword.
    Primitive(&'static str),
    /// A class or value type: a TypeDef, TypeRef or TypeSpec token.
    Named(Token),
    /// A generic type with its arguments; those of enclosing types come first.
    Generic {
        /// The generic type; [`Token::NONE`] where it is a type handle, as in dynamic methods.
        definition: Token,
        /// The arguments.
        arguments: Vec<Type>,
    },
    /// The generic parameter of the type with this number.
    TypeParameter(u32),
    /// The generic parameter of the method with this number.
    MethodParameter(u32),
    /// `T[]`.
    Vector(Box<Type>),
    /// `T[,]`: an array of this rank.
    Array(Box<Type>, u32),
    /// `T*`.
    Pointer(Box<Type>),
    /// A managed reference: `ref`, `in` or `out`.
    ByRef(Box<Type>),
    /// A function pointer.
    Function(Box<MethodSignature>),
    /// A runtime's own type handle, as dynamic methods have; its name is not in any metadata.
    Internal,
    /// Not readable, or too deep.
    Unknown,
}

/// How a method is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// By the CLR, with a fixed number of arguments.
    Managed,
    /// By the CLR, with `__arglist`.
    VarArgs,
    /// By a native convention of this name; empty for the platform's own.
    Unmanaged(&'static str),
}

/// A method's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodSignature {
    /// How it is called.
    pub convention: Convention,
    /// The number of its generic parameters.
    pub generic_arity: u32,
    /// The custom modifiers of the return type; an `init` accessor is told by one.
    pub return_modifiers: Vec<Token>,
    /// The return type.
    pub return_type: Type,
    /// The parameters that could be read.
    pub parameters: Vec<Type>,
    /// Whether the blob could be read to its end.
    pub is_complete: bool,
}

const CONVENTION_MASK: u8 = 0x0f;
const CONVENTION_VARARG: u8 = 0x05;
const CONVENTION_UNMANAGED: u8 = 0x09;
const IS_GENERIC: u8 = 0x10;
const SENTINEL: u8 = 0x41;
/// A type by a pointer of the runtime, which is never followed.
const INTERNAL: u8 = 0x21;

impl MethodSignature {
    /// Decodes a MethodDefSig, MethodRefSig or StandAloneMethodSig.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        method(&mut Blob::new(bytes), 0)
    }
}

impl Type {
    /// Decodes a TypeSpec blob.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        ty(&mut Blob::new(bytes), 0)
    }
}

fn method(blob: &mut Blob<'_>, depth: usize) -> MethodSignature {
    let flags = blob.byte().unwrap_or_default();
    let convention = match flags & CONVENTION_MASK {
        0x00 => Convention::Managed,
        0x01 => Convention::Unmanaged("Cdecl"),
        0x02 => Convention::Unmanaged("Stdcall"),
        0x03 => Convention::Unmanaged("Thiscall"),
        0x04 => Convention::Unmanaged("Fastcall"),
        CONVENTION_VARARG => Convention::VarArgs,
        CONVENTION_UNMANAGED => Convention::Unmanaged(""),
        // Fields, locals, properties and method instantiations are no methods.
        _ => {
            blob.fail::<()>();
            Convention::Managed
        }
    };
    let generic_arity =
        if flags & IS_GENERIC != 0 { blob.compressed().unwrap_or_default() } else { 0 };
    let count = blob.compressed().unwrap_or_default();
    let return_modifiers = modifiers(blob);
    let return_type = ty(blob, depth);
    let mut parameters = Vec::new();
    for _ in 0..count {
        if blob.peek() == Some(SENTINEL) {
            blob.byte();
        }
        // Every parameter takes a byte at least, so a lying count ends with the blob.
        let parameter = ty(blob, depth);
        if blob.has_failed() && parameter == Type::Unknown {
            break;
        }
        parameters.push(parameter);
    }
    let is_complete = !blob.has_failed();
    MethodSignature {
        convention,
        generic_arity,
        return_modifiers,
        return_type,
        parameters,
        is_complete,
    }
}

fn modifiers(blob: &mut Blob<'_>) -> Vec<Token> {
    let mut tokens = Vec::new();
    while let Some(0x1f | 0x20) = blob.peek() {
        blob.byte();
        match blob.type_token() {
            Some(token) => tokens.push(token),
            None => break,
        }
    }
    tokens
}

fn ty(blob: &mut Blob<'_>, depth: usize) -> Type {
    if depth >= SIGNATURE_DEPTH_MAX {
        blob.fail::<()>();
    }
    loop {
        let Some(element) = blob.byte() else { return Type::Unknown };
        match element {
            // Custom modifiers, and `pinned` in locals, say nothing that a name shows.
            0x1f | 0x20 => {
                blob.type_token();
            }
            0x45 => {}
            _ => return element_type(element, blob, depth),
        }
    }
}

fn element_type(element: u8, blob: &mut Blob<'_>, depth: usize) -> Type {
    let deeper = depth.saturating_add(1);
    if let Some(keyword) = primitive(element) {
        return Type::Primitive(keyword);
    }
    match element {
        0x0f => Type::Pointer(Box::new(ty(blob, deeper))),
        0x10 => Type::ByRef(Box::new(ty(blob, deeper))),
        0x11 | 0x12 => blob.type_token().map_or(Type::Unknown, Type::Named),
        0x13 => blob.compressed().map_or(Type::Unknown, Type::TypeParameter),
        0x14 => array(blob, deeper),
        0x15 => generic(blob, deeper),
        0x1b => Type::Function(Box::new(method(blob, deeper))),
        0x1d => Type::Vector(Box::new(ty(blob, deeper))),
        0x1e => blob.compressed().map_or(Type::Unknown, Type::MethodParameter),
        INTERNAL => blob.bytes(size_of::<usize>()).map_or(Type::Unknown, |_| Type::Internal),
        _ => {
            blob.fail::<()>();
            Type::Unknown
        }
    }
}

fn primitive(element: u8) -> Option<&'static str> {
    Some(match element {
        0x01 => "void",
        0x02 => "bool",
        0x03 => "char",
        0x04 => "sbyte",
        0x05 => "byte",
        0x06 => "short",
        0x07 => "ushort",
        0x08 => "int",
        0x09 => "uint",
        0x0a => "long",
        0x0b => "ulong",
        0x0c => "float",
        0x0d => "double",
        0x0e => "string",
        0x16 => "TypedReference",
        0x18 => "nint",
        0x19 => "nuint",
        0x1c => "object",
        _ => return None,
    })
}

fn array(blob: &mut Blob<'_>, depth: usize) -> Type {
    let element = ty(blob, depth);
    let rank = blob.compressed().unwrap_or_default();
    // Sizes and lower bounds: a name shows neither.
    for _ in 0..2 {
        let count = blob.compressed().unwrap_or_default();
        for _ in 0..count {
            if blob.compressed().is_none() {
                break;
            }
        }
    }
    Type::Array(Box::new(element), rank)
}

fn generic(blob: &mut Blob<'_>, depth: usize) -> Type {
    let definition = match blob.byte() {
        Some(INTERNAL) => blob.bytes(size_of::<usize>()).map(|_| Token::NONE),
        _ => blob.type_token(),
    };
    let Some(definition) = definition else { return Type::Unknown };
    let count = blob.compressed().unwrap_or_default();
    let mut arguments = Vec::new();
    for _ in 0..count {
        arguments.push(ty(blob, depth));
        if blob.has_failed() {
            break;
        }
    }
    Type::Generic { definition, arguments }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], parameters: &[Type], is_complete: bool) {
        let signature = MethodSignature::decode(bytes);
        assert_eq!(signature.parameters, parameters, "{bytes:02x?}");
        assert_eq!(signature.is_complete, is_complete, "{bytes:02x?}");
    }

    const INT: Type = Type::Primitive("int");

    #[test]
    fn parameters_of_every_kind() {
        check(&[0x00, 0x00, 0x01], &[], true);
        check(&[0x20, 0x01, 0x01, 0x08], &[INT], true);
        check(&[0x00, 0x01, 0x01, 0x1d, 0x08], &[Type::Vector(INT.into())], true);
        check(
            &[0x00, 0x01, 0x01, 0x0f, 0x01],
            &[Type::Pointer(Type::Primitive("void").into())],
            true,
        );
        check(&[0x00, 0x01, 0x01, 0x10, 0x08], &[Type::ByRef(INT.into())], true);
        check(&[0x00, 0x01, 0x01, 0x12, 0x49], &[Type::Named(Token(0x0100_0012))], true);
        check(&[0x00, 0x01, 0x01, 0x13, 0x01], &[Type::TypeParameter(1)], true);
        check(&[0x10, 0x01, 0x01, 0x01, 0x1e, 0x00], &[Type::MethodParameter(0)], true);
        check(
            &[0x00, 0x01, 0x01, 0x14, 0x08, 0x03, 0x01, 0x05, 0x03, 0x00, 0x00, 0x00],
            &[Type::Array(INT.into(), 3)],
            true,
        );
        let list = Type::Generic { definition: Token(0x0100_0012), arguments: vec![INT] };
        check(&[0x00, 0x01, 0x01, 0x15, 0x12, 0x49, 0x01, 0x08], &[list], true);
        // modreq, modopt and pinned are skipped.
        check(&[0x00, 0x01, 0x01, 0x1f, 0x49, 0x20, 0x49, 0x45, 0x08], &[INT], true);
    }

    #[test]
    fn function_pointers_hold_a_signature() {
        let signature = MethodSignature::decode(&[0x00, 0x01, 0x01, 0x1b, 0x01, 0x01, 0x0e, 0x08]);
        let Some(Type::Function(inner)) = signature.parameters.first() else { panic!() };
        assert_eq!(inner.convention, Convention::Unmanaged("Cdecl"));
        assert_eq!(inner.return_type, Type::Primitive("string"));
        assert_eq!(inner.parameters, [INT]);
    }

    #[test]
    fn variable_arguments() {
        let signature = MethodSignature::decode(&[0x05, 0x02, 0x01, 0x08, 0x41, 0x08]);
        assert_eq!(signature.convention, Convention::VarArgs);
        assert_eq!(signature.parameters, [INT, INT]);
    }

    #[test]
    fn the_modifier_of_an_init_accessor_is_kept() {
        let signature = MethodSignature::decode(&[0x20, 0x01, 0x1f, 0x49, 0x01, 0x08]);
        assert_eq!(signature.return_modifiers, [Token(0x0100_0012)]);
        assert_eq!(signature.return_type, Type::Primitive("void"));
    }

    #[test]
    fn what_was_read_before_the_damage_is_kept() {
        check(&[], &[], false);
        check(&[0x00, 0x02, 0x01, 0x08], &[INT], false);
        check(&[0x00, 0x02, 0x01, 0x08, 0x77], &[INT], false);
        check(&[0x00, 0xdf, 0xff, 0xff, 0xff, 0x01], &[], false);
        check(&[0x06, 0x08], &[], false);
        check(&[0x00, 0x01, 0x01, 0x1d], &[Type::Vector(Type::Unknown.into())], false);
    }

    #[test]
    fn depth_is_bounded() {
        let mut bytes = vec![0x00, 0x01, 0x01];
        bytes.extend([0x1d].repeat(100_000));
        let signature = MethodSignature::decode(&bytes);
        assert!(!signature.is_complete);
        let mut depth = 0;
        let mut at = signature.parameters.first();
        while let Some(Type::Vector(inner)) = at {
            depth += 1;
            at = Some(inner);
        }
        assert_eq!(depth, SIGNATURE_DEPTH_MAX);
    }
}
