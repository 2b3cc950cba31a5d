//! `ICorProfilerInfo`: what can be asked of the runtime, from any thread.

use std::ffi::c_void;

use crate::com::{ComPtr, Guid, HResult, call, text};
use crate::import::Import;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub usize);
    };
}

id!(
    /// A managed thread, valid from its creation to its destruction.
    ThreadId
);
id!(
    /// A method, valid until its module (or the dynamic method) is unloaded.
    FunctionId
);
id!(
    /// A type, valid until its module is unloaded.
    ClassId
);
id!(
    /// A module, valid until it is unloaded.
    ModuleId
);
id!(
    /// A version of a method's IL; 0 for the one from its file.
    ReJitId
);

/// A run of machine code.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeRange {
    /// First address.
    pub start: usize,
    /// Length in bytes.
    pub size: usize,
}

/// A run of a version's machine code that is of one IL instruction, or of none:
/// `COR_DEBUG_IL_TO_NATIVE_MAP`. The offsets count from the version's start, over all its runs of
/// code one after the other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IlMapping {
    /// Offset of the IL instruction, or one of the constants below.
    pub il: u32,
    /// Offset of the first byte of machine code.
    pub start: u32,
    /// Offset of the first byte behind it.
    pub end: u32,
}

impl IlMapping {
    /// Code of no instruction: `ICorDebugInfo::NO_MAPPING`.
    pub const NONE: u32 = u32::MAX;
    /// Code that makes the method's frame: `PROLOG`.
    pub const PROLOG: u32 = u32::MAX - 1;
    /// Code that takes it down: `EPILOG`.
    pub const EPILOG: u32 = u32::MAX - 2;
}

/// Which callbacks the runtime makes: the low and the high word of the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventMask {
    /// `COR_PRF_MONITOR`.
    pub low: u32,
    /// `COR_PRF_HIGH_MONITOR`.
    pub high: u32,
}

impl EventMask {
    /// Threads and modules, and the end of dynamic methods: nothing that disables precompiled
    /// code, inlining or tiered compilation.
    pub const SAMPLING: Self =
        Self { low: Self::THREADS | Self::MODULES, high: Self::DYNAMIC_UNLOADS };
    /// Collections. The older flag for them, `COR_PRF_MONITOR_GC` (0x1), would switch concurrent
    /// ones off and walk the heap in each; this one does neither.
    pub const COLLECTIONS: Self = Self { low: 0, high: Self::BASIC_GC };
    /// That all managed threads are stopped, and why.
    pub const PAUSES: Self = Self { low: Self::SUSPENDS, high: 0 };
    const MODULES: u32 = 0x4;
    const THREADS: u32 = 0x200;
    const SUSPENDS: u32 = 0x1_0000;
    const DYNAMIC_UNLOADS: u32 = 0x4;
    const BASIC_GC: u32 = 0x10;

    /// The callbacks of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self { low: self.low | other.low, high: self.high | other.high }
    }
}

/// The runtime's version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// As in 8.0.4: 8. On .NET Core 3.1 all are 0: it does not say.
    pub major: u16,
    /// As in 8.0.4: 0.
    pub minor: u16,
    /// The build's number.
    pub build: u16,
}

/// What a method is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Its type; `None` where the code is shared by several instantiations.
    pub class: Option<ClassId>,
    /// Its module.
    pub module: ModuleId,
    /// Its token in the module's metadata.
    pub token: u32,
    /// The method's own generic arguments.
    pub type_args: Vec<ClassId>,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassInfo {
    /// Its module.
    pub module: ModuleId,
    /// Its token in the module's metadata.
    pub token: u32,
    /// Its generic arguments.
    pub type_args: Vec<ClassId>,
}

/// A method that was made at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicFunction {
    /// The name that its maker gave it.
    pub name: String,
    /// Its signature (ECMA-335 II.23.2).
    pub signature: Vec<u8>,
}

/// What a module is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleInfo {
    /// Where it lies; 0 for a module made at run time.
    pub base: usize,
    /// Its file's path, or its name if there is none.
    pub path: String,
}

/// Longest name asked for, in UTF-16 units: a path can have 4096 bytes.
const NAME_UNITS_MAX: usize = 4096;
/// Generic arguments asked for at once: more are cut.
const TYPE_ARGS_MAX: usize = 16;
/// Code versions of a method, and runs of one version, asked for at once.
const CODE_PARTS_MAX: usize = 32;
/// Entries of a version's IL map that are asked for at once, and at most; a method of a thousand
/// lines has a few thousand.
const IL_MAPPINGS: usize = 256;
const IL_MAPPINGS_MAX: usize = 1 << 16;

/// The versions, newest first. A runtime has all those before its newest.
const VERSIONS: [(u32, Guid); 13] = [
    (15, Guid::new(0xB446462D_BD22_41DD_872D_DC714C49EB56)),
    (14, Guid::new(0xF460E352_D76D_4FE9_835F_F6AF9D6E862D)),
    (13, Guid::new(0x6E6C7EE2_0701_4EC2_9D29_2E8733B66934)),
    (12, Guid::new(0x27B24CCD_1CB1_47C5_96EE_98190DC30959)),
    (11, Guid::new(0x06398876_8987_4154_B621_40A00D6E4D04)),
    (10, Guid::new(0x2F1B5152_C869_40C9_AA5F_3ABE026BD720)),
    (9, Guid::new(0x008170DB_F8CC_4796_9A51_DC8AA0B47012)),
    (8, Guid::new(0xC5AC80A6_782E_4716_8044_39598C60CFBF)),
    (7, Guid::new(0x9AEECC0D_63E0_4187_8C00_E312F503F663)),
    (6, Guid::new(0xF30A070D_BFFB_46A7_B1D8_8781EF7B698A)),
    (5, Guid::new(0x07602928_CE38_4B83_81E7_74ADAF781214)),
    (4, Guid::new(0x0D8FDCAA_6257_47BF_B1BF_94DAC88466EE)),
    (3, Guid::new(0xB555ED4F_452A_4E54_8B39_B5360BAD32A0)),
];

/// The lowest version that suffices: `GetFunctionFromIP3` and `GetCodeInfo4` came with .NET Core
/// 2.1, so every runtime that this profiler is for has it.
const VERSION_MIN: u32 = 9;

/// The runtime.
pub struct Info {
    pub(crate) pointer: ComPtr,
    pub(crate) version: u32,
}

impl Info {
    /// Asks for the newest version that the runtime has.
    ///
    /// # Safety
    /// `unknown` is the live object that the runtime passed to `Initialize`.
    pub(crate) unsafe fn query(unknown: *mut c_void) -> Result<Self, HResult> {
        VERSIONS
            .iter()
            .take_while(|(version, _)| *version >= VERSION_MIN)
            .find_map(|(version, interface)| {
                // SAFETY: a live object, by the caller's promise.
                let pointer = unsafe { ComPtr::query(unknown, interface) }.ok()?;
                Some(Self { pointer, version: *version })
            })
            .ok_or(HResult::NO_INTERFACE)
    }

    /// The newest `ICorProfilerInfo` that the runtime has: 9 or more.
    #[must_use]
    pub fn interface_version(&self) -> u32 {
        self.version
    }

    /// Sets which callbacks are made.
    ///
    /// # Errors
    /// The runtime's answer.
    pub fn set_event_mask(&self, mask: EventMask) -> Result<(), HResult> {
        // SAFETY: slot 82 is SetEventMask2(DWORD, DWORD).
        unsafe { call!(self.pointer, 82, (u32, u32), (mask.low, mask.high)) }.ok()
    }

    /// The runtime's version; zeros if it doesn't say.
    #[must_use]
    pub fn runtime_version(&self) -> RuntimeVersion {
        let (mut instance, mut kind) = (0_u16, 0_i32);
        let (mut major, mut minor, mut build, mut fix) = (0_u16, 0_u16, 0_u16, 0_u16);
        let (mut length, mut version) = (0_u32, [0_u16; 64]);
        // SAFETY: slot 67 is GetRuntimeInformation with these out-parameters; the version's buffer
        // has 64 units.
        let answer = unsafe {
            call!(
                self.pointer,
                67,
                (
                    *mut u16,
                    *mut i32,
                    *mut u16,
                    *mut u16,
                    *mut u16,
                    *mut u16,
                    u32,
                    *mut u32,
                    *mut u16
                ),
                (
                    &raw mut instance,
                    &raw mut kind,
                    &raw mut major,
                    &raw mut minor,
                    &raw mut build,
                    &raw mut fix,
                    64,
                    &raw mut length,
                    version.as_mut_ptr()
                )
            )
        };
        match answer.ok() {
            Ok(()) => RuntimeVersion { major, minor, build },
            Err(_) => RuntimeVersion::default(),
        }
    }

    /// The method that an address lies in, dynamic methods and stubs included.
    #[must_use]
    pub fn function_at(&self, ip: u64) -> Option<(FunctionId, ReJitId)> {
        let (mut function, mut rejit) = (FunctionId(0), ReJitId(0));
        let ip = ip as *const u8;
        // SAFETY: slot 88 is GetFunctionFromIP3(LPCBYTE, FunctionID*, ReJITID*); the runtime only
        // looks the address up, it doesn't read there.
        let answer = unsafe {
            call!(
                self.pointer,
                88,
                (*const u8, *mut FunctionId, *mut ReJitId),
                (ip, &raw mut function, &raw mut rejit)
            )
        };
        answer.ok().ok()?;
        (function.0 != 0).then_some((function, rejit))
    }

    /// Where each compiled version of a method starts.
    #[must_use]
    pub fn code_starts(&self, function: FunctionId, rejit: ReJitId) -> Vec<usize> {
        let (mut count, mut starts) = (0_u32, [0_usize; CODE_PARTS_MAX]);
        // SAFETY: slot 90 is GetNativeCodeStartAddresses(FunctionID, ReJITID, ULONG32, ULONG32*,
        // UINT_PTR[]); the array has the length that is said.
        let answer = unsafe {
            call!(
                self.pointer,
                90,
                (FunctionId, ReJitId, u32, *mut u32, *mut usize),
                (function, rejit, CODE_PARTS_MAX as u32, &raw mut count, starts.as_mut_ptr())
            )
        };
        filled(answer, &starts, count)
    }

    /// The runs of code of the version that starts at an address.
    #[must_use]
    pub fn code_ranges(&self, start: usize) -> Vec<CodeRange> {
        let (mut count, mut ranges) = (0_u32, [CodeRange::default(); CODE_PARTS_MAX]);
        // SAFETY: slot 92 is GetCodeInfo4(UINT_PTR, ULONG32, ULONG32*, COR_PRF_CODE_INFO[]); the
        // array has the length that is said.
        let answer = unsafe {
            call!(
                self.pointer,
                92,
                (usize, u32, *mut u32, *mut CodeRange),
                (start, CODE_PARTS_MAX as u32, &raw mut count, ranges.as_mut_ptr())
            )
        };
        filled(answer, &ranges, count)
    }

    /// Which IL the code of the version that starts at an address is of, as the compiler noted it;
    /// nothing for methods without IL in a file. Of optimised code it has the beginnings of
    /// statements and the calls.
    #[must_use]
    pub fn il_map(&self, start: usize) -> Vec<IlMapping> {
        let mut map = vec![IlMapping::default(); IL_MAPPINGS];
        loop {
            let mut count = 0_u32;
            // SAFETY: slot 91 is GetILToNativeMapping3(UINT_PTR, ULONG32, ULONG32*,
            // COR_DEBUG_IL_TO_NATIVE_MAP[]); the array is as long as said.
            let answer = unsafe {
                call!(
                    self.pointer,
                    91,
                    (usize, u32, *mut u32, *mut IlMapping),
                    (start, map.len() as u32, &raw mut count, map.as_mut_ptr())
                )
            };
            // The count is of all that there are, whether they had room or not.
            let all = usize::try_from(count).unwrap_or(0).min(IL_MAPPINGS_MAX);
            if answer.ok().is_ok() && all > map.len() {
                map.resize(all, IlMapping::default());
                continue;
            }
            return filled(answer, &map, count);
        }
    }

    /// Whether a method has no metadata of its own.
    #[must_use]
    pub fn is_dynamic(&self, function: FunctionId) -> bool {
        let mut dynamic = 0_i32;
        // SAFETY: slot 87 is IsFunctionDynamic(FunctionID, BOOL*).
        let answer = unsafe {
            call!(self.pointer, 87, (FunctionId, *mut i32), (function, &raw mut dynamic))
        };
        answer.ok().is_ok() && dynamic != 0
    }

    /// What a method with metadata is.
    #[must_use]
    pub fn function(&self, function: FunctionId) -> Option<FunctionInfo> {
        let (mut class, mut module, mut token) = (ClassId(0), ModuleId(0), 0_u32);
        let (mut count, mut args) = (0_u32, [ClassId(0); TYPE_ARGS_MAX]);
        // SAFETY: slot 38 is GetFunctionInfo2(FunctionID, COR_PRF_FRAME_INFO, ClassID*, ModuleID*,
        // mdToken*, ULONG32, ULONG32*, ClassID[]); no frame is allowed, the array is as long as
        // said.
        let answer = unsafe {
            call!(
                self.pointer,
                38,
                (
                    FunctionId,
                    usize,
                    *mut ClassId,
                    *mut ModuleId,
                    *mut u32,
                    u32,
                    *mut u32,
                    *mut ClassId
                ),
                (
                    function,
                    0,
                    &raw mut class,
                    &raw mut module,
                    &raw mut token,
                    TYPE_ARGS_MAX as u32,
                    &raw mut count,
                    args.as_mut_ptr()
                )
            )
        };
        answer.ok().ok()?;
        let class = (class.0 != 0).then_some(class);
        Some(FunctionInfo { class, module, token, type_args: filled(answer, &args, count) })
    }

    /// What a method made at run time is.
    #[must_use]
    pub fn dynamic_function(&self, function: FunctionId) -> Option<DynamicFunction> {
        let (mut module, mut signature, mut bytes) = (ModuleId(0), std::ptr::null::<u8>(), 0_u32);
        let (mut length, mut name) = (0_u32, [0_u16; 512]);
        // SAFETY: slot 89 is GetDynamicFunctionInfo(FunctionID, ModuleID*, PCCOR_SIGNATURE*,
        // ULONG*, ULONG, ULONG*, WCHAR[]); the buffer is as long as said.
        let answer = unsafe {
            call!(
                self.pointer,
                89,
                (FunctionId, *mut ModuleId, *mut *const u8, *mut u32, u32, *mut u32, *mut u16),
                (
                    function,
                    &raw mut module,
                    &raw mut signature,
                    &raw mut bytes,
                    512,
                    &raw mut length,
                    name.as_mut_ptr()
                )
            )
        };
        answer.ok().ok()?;
        // SAFETY: the runtime says that many bytes stand there; they live as long as the method,
        // which was found by an address sampled just now.
        let signature = unsafe { copied(signature, bytes) };
        Some(DynamicFunction { name: text(&name, length), signature })
    }

    /// What a type is; `None` for arrays and for what has no metadata.
    #[must_use]
    pub fn class(&self, class: ClassId) -> Option<ClassInfo> {
        let (mut module, mut token, mut parent) = (ModuleId(0), 0_u32, ClassId(0));
        let (mut count, mut args) = (0_u32, [ClassId(0); TYPE_ARGS_MAX]);
        // SAFETY: slot 41 is GetClassIDInfo2(ClassID, ModuleID*, mdTypeDef*, ClassID*, ULONG32,
        // ULONG32*, ClassID[]); the array is as long as said.
        let answer = unsafe {
            call!(
                self.pointer,
                41,
                (ClassId, *mut ModuleId, *mut u32, *mut ClassId, u32, *mut u32, *mut ClassId),
                (
                    class,
                    &raw mut module,
                    &raw mut token,
                    &raw mut parent,
                    TYPE_ARGS_MAX as u32,
                    &raw mut count,
                    args.as_mut_ptr()
                )
            )
        };
        answer.ok().ok()?;
        (module.0 != 0).then(|| ClassInfo {
            module,
            token,
            type_args: filled(answer, &args, count),
        })
    }

    /// The element type and rank of an array type; `None` for other types. The element is given by
    /// its ECMA-335 element type number, and its class where it has one.
    #[must_use]
    pub fn array(&self, class: ClassId) -> Option<(u32, Option<ClassId>, u32)> {
        let (mut element, mut element_class, mut rank) = (0_u32, ClassId(0), 0_u32);
        // SAFETY: slot 11 is IsArrayClass(ClassID, CorElementType*, ClassID*, ULONG*).
        let answer = unsafe {
            call!(
                self.pointer,
                11,
                (ClassId, *mut u32, *mut ClassId, *mut u32),
                (class, &raw mut element, &raw mut element_class, &raw mut rank)
            )
        };
        // S_FALSE says "not an array".
        let element_class = (element_class.0 != 0).then_some(element_class);
        (answer == HResult::OK).then_some((element, element_class, rank))
    }

    /// What a module is.
    #[must_use]
    pub fn module(&self, module: ModuleId) -> Option<ModuleInfo> {
        let (mut base, mut assembly) = (std::ptr::null::<u8>(), 0_usize);
        let (mut length, mut path) = (0_u32, vec![0_u16; NAME_UNITS_MAX]);
        // SAFETY: slot 20 is GetModuleInfo(ModuleID, LPCBYTE*, ULONG, ULONG*, WCHAR[],
        // AssemblyID*); the buffer is as long as said.
        let answer = unsafe {
            call!(
                self.pointer,
                20,
                (ModuleId, *mut *const u8, u32, *mut u32, *mut u16, *mut usize),
                (
                    module,
                    &raw mut base,
                    NAME_UNITS_MAX as u32,
                    &raw mut length,
                    path.as_mut_ptr(),
                    &raw mut assembly
                )
            )
        };
        answer.ok().ok()?;
        Some(ModuleInfo { base: base as usize, path: text(&path, length) })
    }

    /// A module's metadata.
    #[must_use]
    pub fn metadata(&self, module: ModuleId) -> Option<Import> {
        const READ: u32 = 0;
        let mut out = std::ptr::null_mut();
        // SAFETY: slot 21 is GetModuleMetaData(ModuleID, DWORD, REFIID, IUnknown**).
        let answer = unsafe {
            call!(
                self.pointer,
                21,
                (ModuleId, u32, *const Guid, *mut *mut c_void),
                (module, READ, std::ptr::from_ref(&Import::INTERFACE), &raw mut out)
            )
        };
        answer.ok().ok()?;
        // SAFETY: on success the runtime counted a reference of that interface for the caller.
        unsafe { ComPtr::from_raw(out) }.map(Import::new)
    }
}

/// The filled part of an out-array.
pub(crate) fn filled<T: Copy>(answer: HResult, values: &[T], count: u32) -> Vec<T> {
    let count = usize::try_from(count).unwrap_or(0).min(values.len());
    if answer.ok().is_err() {
        return Vec::new();
    }
    values.get(..count).unwrap_or_default().to_vec()
}

/// A copy of bytes that the runtime points to.
///
/// # Safety
/// `start` is null or has `count` readable bytes.
pub(crate) unsafe fn copied(start: *const u8, count: u32) -> Vec<u8> {
    let count = usize::try_from(count).unwrap_or(0);
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start, count) }.to_vec()
}
