//! `IMetaDataImport2`: a module's metadata, read through the runtime, so that modules made at run
//! time have names too.

use std::ffi::c_void;

use metadata::{Direction, Metadata, Method, Token, TypeDef, TypeRef};

use crate::com::{ComPtr, Guid, HResult, call, text};
use crate::info::copied;

/// Longest name read, in UTF-16 units; longer ones are cut.
const NAME_UNITS_MAX: usize = 1024;
/// Generic parameters, and methods of one name, read at once; further ones are left out.
const TOKENS_MAX: usize = 32;
/// Bits of a method's attributes (ECMA-335 II.23.1.10).
const METHOD_STATIC: u32 = 0x10;
const METHOD_SPECIAL_NAME: u32 = 0x800;
/// Bits of a parameter's attributes (II.23.1.13).
const PARAM_IN: u32 = 0x1;
const PARAM_OUT: u32 = 0x2;
/// The table of a TypeRef token.
const TYPE_REF_TABLE: u32 = 0x01;
/// The visibility bits of a type's attributes; from `NESTED_FIRST` on it is nested (II.23.1.15).
const VISIBILITY_MASK: u32 = 0x7;
const NESTED_FIRST: u32 = 2;

/// A module's metadata.
pub struct Import(ComPtr);

/// An enumeration of the metadata; closed when dropped.
struct Enumeration<'a> {
    import: &'a Import,
    handle: *mut c_void,
}

impl Drop for Enumeration<'_> {
    fn drop(&mut self) {
        if self.handle.is_null() {
            return;
        }
        type Close = unsafe extern "system" fn(*mut c_void, *mut c_void);
        let object = self.import.0.as_raw();
        // SAFETY: slot 3 of IMetaDataImport is CloseEnum(HCORENUM), which returns nothing.
        let close: Close = unsafe { std::mem::transmute(crate::com::slot(object, 3)) };
        // SAFETY: the handle came from this object and is closed once.
        unsafe { close(object, self.handle) };
    }
}

impl Import {
    pub(crate) const INTERFACE: Guid = Guid::new(0xFCE5EFA0_8BBA_4F8E_A036_8F2022B08466);

    pub(crate) fn new(pointer: ComPtr) -> Self {
        Self(pointer)
    }

    fn type_def_row(&self, token: u32) -> Option<TypeDef> {
        let (mut length, mut name) = (0_u32, [0_u16; NAME_UNITS_MAX]);
        let (mut flags, mut extends) = (0_u32, 0_u32);
        // SAFETY: slot 12 is GetTypeDefProps(mdTypeDef, LPWSTR, ULONG, ULONG*, DWORD*, mdToken*);
        // the buffer is as long as said.
        let answer = unsafe {
            call!(
                self.0,
                12,
                (u32, *mut u16, u32, *mut u32, *mut u32, *mut u32),
                (
                    token,
                    name.as_mut_ptr(),
                    NAME_UNITS_MAX as u32,
                    &raw mut length,
                    &raw mut flags,
                    &raw mut extends
                )
            )
        };
        answer.ok().ok()?;
        let nested = flags & VISIBILITY_MASK >= NESTED_FIRST;
        let enclosing = if nested { self.enclosing(token).map(Token) } else { None };
        Some(TypeDef { name: text(&name, length), enclosing })
    }

    fn enclosing(&self, token: u32) -> Option<u32> {
        let mut enclosing = 0_u32;
        // SAFETY: slot 62 is GetNestedClassProps(mdTypeDef, mdTypeDef*).
        let answer = unsafe { call!(self.0, 62, (u32, *mut u32), (token, &raw mut enclosing)) };
        answer.ok().ok()?;
        Some(enclosing)
    }

    fn type_ref_row(&self, token: u32) -> Option<TypeRef> {
        let (mut scope, mut length, mut name) = (0_u32, 0_u32, [0_u16; NAME_UNITS_MAX]);
        // SAFETY: slot 14 is GetTypeRefProps(mdTypeRef, mdToken*, LPWSTR, ULONG, ULONG*); the
        // buffer is as long as said.
        let answer = unsafe {
            call!(
                self.0,
                14,
                (u32, *mut u32, *mut u16, u32, *mut u32),
                (token, &raw mut scope, name.as_mut_ptr(), NAME_UNITS_MAX as u32, &raw mut length)
            )
        };
        answer.ok().ok()?;
        // Any other scope is a module or an assembly.
        let nested = scope >> 24 == TYPE_REF_TABLE;
        Some(TypeRef { name: text(&name, length), scope: nested.then_some(Token(scope)) })
    }

    fn type_spec_row(&self, token: u32) -> Option<Vec<u8>> {
        let (mut signature, mut bytes) = (std::ptr::null::<u8>(), 0_u32);
        // SAFETY: slot 44 is GetTypeSpecFromToken(mdTypeSpec, PCCOR_SIGNATURE*, ULONG*).
        let answer = unsafe {
            call!(
                self.0,
                44,
                (u32, *mut *const u8, *mut u32),
                (token, &raw mut signature, &raw mut bytes)
            )
        };
        answer.ok().ok()?;
        // SAFETY: the metadata says that many bytes stand there; it lives as long as `self` holds
        // its module's metadata.
        Some(unsafe { copied(signature, bytes) })
    }

    fn method_row(&self, token: u32) -> Option<Method> {
        let (mut parent, mut length, mut name) = (0_u32, 0_u32, [0_u16; NAME_UNITS_MAX]);
        let (mut attributes, mut signature) = (0_u32, std::ptr::null::<u8>());
        let (mut bytes, mut address, mut flags) = (0_u32, 0_u32, 0_u32);
        // SAFETY: slot 30 is GetMethodProps(mdMethodDef, mdTypeDef*, LPWSTR, ULONG, ULONG*, DWORD*,
        // PCCOR_SIGNATURE*, ULONG*, ULONG*, DWORD*); the buffer is as long as said.
        let answer = unsafe {
            call!(
                self.0,
                30,
                (
                    u32,
                    *mut u32,
                    *mut u16,
                    u32,
                    *mut u32,
                    *mut u32,
                    *mut *const u8,
                    *mut u32,
                    *mut u32,
                    *mut u32
                ),
                (
                    token,
                    &raw mut parent,
                    name.as_mut_ptr(),
                    NAME_UNITS_MAX as u32,
                    &raw mut length,
                    &raw mut attributes,
                    &raw mut signature,
                    &raw mut bytes,
                    &raw mut address,
                    &raw mut flags
                )
            )
        };
        answer.ok().ok()?;
        // SAFETY: the metadata says that many bytes stand there; it lives as long as `self`.
        let signature = unsafe { copied(signature, bytes) };
        Some(Method {
            name: text(&name, length),
            parent: Token(parent),
            signature,
            is_static: attributes & METHOD_STATIC != 0,
            is_special_name: attributes & METHOD_SPECIAL_NAME != 0,
        })
    }

    fn generic_param_names(&self, owner: u32) -> Vec<String> {
        let mut enumeration = Enumeration { import: self, handle: std::ptr::null_mut() };
        let (mut count, mut tokens) = (0_u32, [0_u32; TOKENS_MAX]);
        // SAFETY: slot 65 is EnumGenericParams(HCORENUM*, mdToken, mdGenericParam[], ULONG,
        // ULONG*); the array is as long as said.
        let answer = unsafe {
            call!(
                self.0,
                65,
                (*mut *mut c_void, u32, *mut u32, u32, *mut u32),
                (
                    &raw mut enumeration.handle,
                    owner,
                    tokens.as_mut_ptr(),
                    TOKENS_MAX as u32,
                    &raw mut count
                )
            )
        };
        if answer.ok().is_err() {
            return Vec::new();
        }
        let count = usize::try_from(count).unwrap_or(0);
        tokens.iter().take(count).filter_map(|token| self.generic_param_name(*token)).collect()
    }

    fn generic_param_name(&self, token: u32) -> Option<String> {
        let (mut sequence, mut flags, mut owner, mut reserved) = (0_u32, 0_u32, 0_u32, 0_u32);
        let (mut length, mut name) = (0_u32, [0_u16; NAME_UNITS_MAX]);
        // SAFETY: slot 66 is GetGenericParamProps(mdGenericParam, ULONG*, DWORD*, mdToken*, DWORD*,
        // LPWSTR, ULONG, ULONG*); the buffer is as long as said.
        let answer = unsafe {
            call!(
                self.0,
                66,
                (u32, *mut u32, *mut u32, *mut u32, *mut u32, *mut u16, u32, *mut u32),
                (
                    token,
                    &raw mut sequence,
                    &raw mut flags,
                    &raw mut owner,
                    &raw mut reserved,
                    name.as_mut_ptr(),
                    NAME_UNITS_MAX as u32,
                    &raw mut length
                )
            )
        };
        answer.ok().ok()?;
        Some(text(&name, length))
    }

    fn methods_with_name(&self, class: u32, name: &str) -> Vec<u32> {
        let mut enumeration = Enumeration { import: self, handle: std::ptr::null_mut() };
        let name = wide(name);
        let (mut count, mut tokens) = (0_u32, [0_u32; TOKENS_MAX]);
        // SAFETY: slot 19 is EnumMethodsWithName(HCORENUM*, mdTypeDef, LPCWSTR, mdMethodDef[],
        // ULONG, ULONG*); the name ends with NUL, the array is as long as said.
        let answer = unsafe {
            call!(
                self.0,
                19,
                (*mut *mut c_void, u32, *const u16, *mut u32, u32, *mut u32),
                (
                    &raw mut enumeration.handle,
                    class,
                    name.as_ptr(),
                    tokens.as_mut_ptr(),
                    TOKENS_MAX as u32,
                    &raw mut count
                )
            )
        };
        if answer.ok().is_err() {
            return Vec::new();
        }
        tokens.iter().take(usize::try_from(count).unwrap_or(0)).copied().collect()
    }

    fn custom_attribute(&self, owner: u32, name: &str) -> Option<Vec<u8>> {
        let name = wide(name);
        let (mut value, mut bytes) = (std::ptr::null::<u8>(), 0_u32);
        // SAFETY: slot 60 is GetCustomAttributeByName(mdToken, LPCWSTR, const void**, ULONG*); the
        // name ends with NUL.
        let answer = unsafe {
            call!(
                self.0,
                60,
                (u32, *const u16, *mut *const u8, *mut u32),
                (owner, name.as_ptr(), &raw mut value, &raw mut bytes)
            )
        };
        // S_FALSE says that there is none.
        if answer != HResult::OK {
            return None;
        }
        // SAFETY: the metadata says that many bytes stand there; it lives as long as `self`.
        Some(unsafe { copied(value, bytes) })
    }

    fn param_attributes(&self, method: u32, sequence: u32) -> Option<u32> {
        let mut token = 0_u32;
        // SAFETY: slot 52 is GetParamForMethodIndex(mdMethodDef, ULONG, mdParamDef*).
        let answer =
            unsafe { call!(self.0, 52, (u32, u32, *mut u32), (method, sequence, &raw mut token)) };
        answer.ok().ok()?;
        let (mut owner, mut number, mut length) = (0_u32, 0_u32, 0_u32);
        let (mut attributes, mut kind) = (0_u32, 0_u32);
        let (mut value, mut value_length) = (std::ptr::null::<u8>(), 0_u32);
        // SAFETY: slot 59 is GetParamProps(mdParamDef, mdMethodDef*, ULONG*, LPWSTR, ULONG, ULONG*,
        // DWORD*, DWORD*, UVCP_CONSTANT*, ULONG*); no name is asked for, so its buffer may be null.
        let answer = unsafe {
            call!(
                self.0,
                59,
                (
                    u32,
                    *mut u32,
                    *mut u32,
                    *mut u16,
                    u32,
                    *mut u32,
                    *mut u32,
                    *mut u32,
                    *mut *const u8,
                    *mut u32
                ),
                (
                    token,
                    &raw mut owner,
                    &raw mut number,
                    std::ptr::null_mut(),
                    0,
                    &raw mut length,
                    &raw mut attributes,
                    &raw mut kind,
                    &raw mut value,
                    &raw mut value_length
                )
            )
        };
        answer.ok().ok()?;
        Some(attributes)
    }
}

impl Metadata for Import {
    fn type_def(&self, token: Token) -> Option<TypeDef> {
        self.type_def_row(token.0)
    }

    fn type_ref(&self, token: Token) -> Option<TypeRef> {
        self.type_ref_row(token.0)
    }

    fn type_spec(&self, token: Token) -> Option<Vec<u8>> {
        self.type_spec_row(token.0)
    }

    fn method(&self, token: Token) -> Option<Method> {
        self.method_row(token.0)
    }

    fn generic_params(&self, owner: Token) -> Vec<String> {
        self.generic_param_names(owner.0)
    }

    fn methods_named(&self, type_def: Token, name: &str) -> Vec<Token> {
        self.methods_with_name(type_def.0, name).into_iter().map(Token).collect()
    }

    fn attribute(&self, owner: Token, name: &str) -> Option<Vec<u8>> {
        self.custom_attribute(owner.0, name)
    }

    fn direction(&self, method: Token, sequence: u32) -> Direction {
        let attributes = self.param_attributes(method.0, sequence).unwrap_or(0);
        match attributes & (PARAM_IN | PARAM_OUT) {
            PARAM_IN => Direction::In,
            PARAM_OUT => Direction::Out,
            _ => Direction::Ref,
        }
    }
}

/// Text as COM wants it: UTF-16 with a NUL.
fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain(std::iter::once(0)).collect()
}
