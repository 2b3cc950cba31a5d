//! `IMetaDataImport2`: a module's metadata, read through the runtime, so that modules made at run
//! time have names too.

use std::ffi::c_void;

use crate::com::{ComPtr, Guid, call, text};
use crate::info::copied;

/// Longest name read, in UTF-16 units; longer ones are cut.
const NAME_UNITS_MAX: usize = 1024;
/// Generic parameters, and methods of one name, read at once; further ones are left out.
const TOKENS_MAX: usize = 32;
/// `mdStatic` of a method's attributes (ECMA-335 II.23.1.10).
const METHOD_STATIC: u32 = 0x10;
/// The visibility bits of a type's attributes; from `NESTED_FIRST` on it is nested (II.23.1.15).
const VISIBILITY_MASK: u32 = 0x7;
const NESTED_FIRST: u32 = 2;

/// A module's metadata.
pub struct Import(ComPtr);

/// A type that the module defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDefRow {
    /// With its namespace, unless nested.
    pub name: String,
    /// The type that it is nested in.
    pub enclosing: Option<u32>,
}

/// A method that the module defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodRow {
    /// Its name.
    pub name: String,
    /// Its type's token.
    pub parent: u32,
    /// Its signature.
    pub signature: Vec<u8>,
    /// Whether it has no `this`.
    pub is_static: bool,
}

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

    /// A type that the module defines, by its TypeDef token.
    #[must_use]
    pub fn type_def_row(&self, token: u32) -> Option<TypeDefRow> {
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
        let enclosing = if nested { self.enclosing(token) } else { None };
        Some(TypeDefRow { name: text(&name, length), enclosing })
    }

    fn enclosing(&self, token: u32) -> Option<u32> {
        let mut enclosing = 0_u32;
        // SAFETY: slot 62 is GetNestedClassProps(mdTypeDef, mdTypeDef*).
        let answer = unsafe { call!(self.0, 62, (u32, *mut u32), (token, &raw mut enclosing)) };
        answer.ok().ok()?;
        Some(enclosing)
    }

    /// A type of another module, by its TypeRef token: its name and the token of its scope.
    #[must_use]
    pub fn type_ref_row(&self, token: u32) -> Option<(String, u32)> {
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
        Some((text(&name, length), scope))
    }

    /// A constructed type's signature, by its TypeSpec token.
    #[must_use]
    pub fn type_spec_row(&self, token: u32) -> Option<Vec<u8>> {
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

    /// A method that the module defines, by its MethodDef token.
    #[must_use]
    pub fn method_row(&self, token: u32) -> Option<MethodRow> {
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
        let is_static = attributes & METHOD_STATIC != 0;
        Some(MethodRow { name: text(&name, length), parent, signature, is_static })
    }

    /// The names of the generic parameters of a type or method, in order.
    #[must_use]
    pub fn generic_param_names(&self, owner: u32) -> Vec<String> {
        let mut enumeration = Enumeration { import: self, handle: std::ptr::null_mut() };
        let (mut count, mut tokens) = (0_u32, [0_u32; TOKENS_MAX]);
        // SAFETY: slot 65 is EnumGenericParams(HCORENUM*, mdToken, mdGenericParam[], ULONG, ULONG*);
        // the array is as long as said.
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

    /// The methods of a type that have a name, at most `TOKENS_MAX`.
    #[must_use]
    pub fn methods_with_name(&self, class: u32, name: &str) -> Vec<u32> {
        let mut enumeration = Enumeration { import: self, handle: std::ptr::null_mut() };
        let name: Vec<u16> = name.encode_utf16().chain(std::iter::once(0)).collect();
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
}
