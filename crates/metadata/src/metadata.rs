//! What the crate asks of a module's metadata: the trait that the runtime's side implements.

/// A metadata token: the table in the high byte, the row in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u32);

impl Token {
    /// No row of any table.
    pub const NONE: Self = Self(0);

    const TYPE_REF: u32 = 0x01;
    const TYPE_DEF: u32 = 0x02;
    const TYPE_SPEC: u32 = 0x1b;
    const ROW_MAX: u32 = 0x00ff_ffff;

    /// The token of a `TypeDefOrRef` coded index (ECMA-335 II.23.2.8), if it is one.
    pub(crate) fn from_type_def_or_ref(coded: u32) -> Option<Self> {
        let table = match coded & 3 {
            0 => Self::TYPE_DEF,
            1 => Self::TYPE_REF,
            2 => Self::TYPE_SPEC,
            _ => return None,
        };
        let row = coded >> 2;
        (row != 0 && row <= Self::ROW_MAX).then_some(Self(table << 24 | row))
    }

    /// The table that the token's row is in.
    pub(crate) fn table(self) -> TypeTable {
        match self.0 >> 24 {
            Self::TYPE_DEF => TypeTable::Definition,
            Self::TYPE_REF => TypeTable::Reference,
            Self::TYPE_SPEC => TypeTable::Specification,
            _ => TypeTable::None,
        }
    }
}

/// The tables a type can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeTable {
    Definition,
    Reference,
    Specification,
    None,
}

/// A row of the TypeDef table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDef {
    /// The name with its namespace; of a nested type the bare name.
    pub name: String,
    /// The type that a nested type is in.
    pub enclosing: Option<Token>,
}

/// A row of the TypeRef table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeRef {
    /// The name with its namespace; of a nested type the bare name.
    pub name: String,
    /// The TypeRef of the type that a nested type is in; none where the scope is an assembly or a
    /// module.
    pub scope: Option<Token>,
}

/// A row of the MethodDef table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// The name as it is in metadata.
    pub name: String,
    /// The TypeDef that the method is in.
    pub parent: Token,
    /// The MethodDefSig blob.
    pub signature: Vec<u8>,
    /// Attribute 0x0010 (`static`).
    pub is_static: bool,
    /// Attribute 0x0800 (`specialname`): it tells a property's `get_Size` from a method that
    /// somebody called `get_away`.
    pub is_special_name: bool,
}

/// What a by-reference parameter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// Neither or both of the attributes `In` and `Out`.
    #[default]
    Ref,
    /// The Param row has `In` (0x1) only.
    In,
    /// The Param row has `Out` (0x2) only.
    Out,
}

/// The metadata of one module. Every answer may be "not there"; none needs to be cached.
pub trait Metadata {
    /// The row of a TypeDef token.
    fn type_def(&self, token: Token) -> Option<TypeDef>;

    /// The row of a TypeRef token.
    fn type_ref(&self, token: Token) -> Option<TypeRef>;

    /// The signature blob of a TypeSpec token.
    fn type_spec(&self, token: Token) -> Option<Vec<u8>>;

    /// The row of a MethodDef token.
    fn method(&self, token: Token) -> Option<Method>;

    /// The names of the generic parameters of a TypeDef or MethodDef, in their order. For a nested
    /// type they begin with those of the enclosing types, as in metadata.
    fn generic_params(&self, owner: Token) -> Vec<String>;

    /// The MethodDef tokens of the methods of a TypeDef with exactly this name.
    fn methods_named(&self, type_def: Token, name: &str) -> Vec<Token>;

    /// The value blob of the custom attribute of this full type name on `owner`. Only asked where a
    /// name is overloaded, to tell which method a state machine belongs to; without it the
    /// parameters of overloaded async methods and iterators are shown as `(…)`.
    fn attribute(&self, _owner: Token, _name: &str) -> Option<Vec<u8>> {
        None
    }

    /// The direction of a by-reference parameter; the first parameter is 1. Without it `out` and
    /// `in` are shown as `ref`.
    fn direction(&self, _method: Token, _sequence: u32) -> Direction {
        Direction::Ref
    }
}
