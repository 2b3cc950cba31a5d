//! OpenTelemetry's contexts, so that other agents link to the same spans: the thread context (a
//! thread-local pointer to a record, found by its symbol) and the process context that announces
//! it. Both are drafts of the specification, and published only if asked for.
//!
//! The record is the second part of the thread's context block, which a tracer writes anyway.

use std::ffi::c_void;

/// Whether threads can have a context here; without it there is nothing to announce.
pub const IS_AVAILABLE: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));
/// The schema of the thread context that is published.
const SCHEMA: &str = "tlsdesc_v1_dev";

/// Field numbers of OpenTelemetry's `ProcessContext`, `Resource`, `KeyValue` and `AnyValue`.
mod field {
    pub const CONTEXT_RESOURCE: u8 = 1;
    pub const CONTEXT_EXTRA: u8 = 2;
    pub const RESOURCE_ATTRIBUTE: u8 = 1;
    pub const PAIR_KEY: u8 = 1;
    pub const PAIR_VALUE: u8 = 2;
    pub const VALUE_STRING: u8 = 1;
    pub const VALUE_ARRAY: u8 = 5;
}

// The variable, and a function that gives its address on the calling thread. In assembly, since the
// specification asks for TLS descriptors, which Rust can't be told to use.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
std::arch::global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".globl otel_thread_ctx_v1",
    ".type otel_thread_ctx_v1,@tls_object",
    ".size otel_thread_ctx_v1,8",
    ".p2align 3",
    "otel_thread_ctx_v1:",
    ".zero 8",
    ".popsection",
    ".pushsection .text.corprof_otel_slot,\"ax\",@progbits",
    // Seen by all of this library, which may be compiled in parts, and by nobody else.
    ".globl corprof_otel_slot",
    ".hidden corprof_otel_slot",
    ".type corprof_otel_slot,@function",
    "corprof_otel_slot:",
    ".cfi_startproc",
    "subq $8, %rsp",
    ".cfi_adjust_cfa_offset 8",
    "leaq otel_thread_ctx_v1@tlsdesc(%rip), %rax",
    "callq *otel_thread_ctx_v1@tlscall(%rax)",
    "addq %fs:0, %rax",
    "addq $8, %rsp",
    ".cfi_adjust_cfa_offset -8",
    "retq",
    ".cfi_endproc",
    ".size corprof_otel_slot,.-corprof_otel_slot",
    ".popsection",
    options(att_syntax)
);

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
unsafe extern "C" {
    /// The calling thread's `otel_thread_ctx_v1`.
    fn corprof_otel_slot() -> *mut *mut c_void;
}

/// Publishes the calling thread's record, which lives for ever.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub fn publish_record(record: *mut c_void) {
    // SAFETY: the function above, which takes nothing and gives the address of a variable.
    let slot = unsafe { corprof_otel_slot() };
    // SAFETY: the variable is this thread's; readers stop the thread before they look.
    unsafe { slot.write_volatile(record) };
}

/// There is no such variable on this processor yet.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub fn publish_record(_record: *mut c_void) {}

/// The payload of the process context: which service this is, and that threads have contexts.
#[must_use]
pub fn process_context(service: &str) -> Vec<u8> {
    let attribute = pair("service.name", &string(service));
    let resource = nested(field::RESOURCE_ATTRIBUTE, &attribute);
    let schema = pair("threadlocal.schema_version", &string(SCHEMA));
    let keys = pair("threadlocal.attribute_key_map", &nested(field::VALUE_ARRAY, &[]));
    [
        nested(field::CONTEXT_RESOURCE, &resource),
        nested(field::CONTEXT_EXTRA, &schema),
        nested(field::CONTEXT_EXTRA, &keys),
    ]
    .concat()
}

/// A `KeyValue`.
fn pair(key: &str, value: &[u8]) -> Vec<u8> {
    [nested(field::PAIR_KEY, key.as_bytes()), nested(field::PAIR_VALUE, value)].concat()
}

/// An `AnyValue` of a text.
fn string(text: &str) -> Vec<u8> {
    nested(field::VALUE_STRING, text.as_bytes())
}

/// A field of bytes or of a message, in protobuf's encoding.
fn nested(field: u8, bytes: &[u8]) -> Vec<u8> {
    const WIRE_BYTES: u8 = 2;
    let mut out = vec![field << 3 | WIRE_BYTES];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_a_process_context() {
        let long = "s".repeat(200);
        let payload = process_context(&long);
        let expected = [
            // resource { attributes { key: "service.name" value { string_value: … } } }
            &b"\x0a\xdf\x01\x0a\xdc\x01\x0a\x0cservice.name\x12\xcb\x01\x0a\xc8\x01"[..],
            long.as_bytes(),
            b"\x12\x2e\x0a\x1athreadlocal.schema_version\x12\x10\x0a\x0etlsdesc_v1_dev",
            b"\x12\x23\x0a\x1dthreadlocal.attribute_key_map\x12\x02\x2a\x00",
        ]
        .concat();
        assert_eq!(payload, expected, "{}", payload.escape_ascii());
    }

    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn each_thread_has_its_own_record() {
        let slot = || {
            // SAFETY: as in `publish_record`.
            let slot = unsafe { corprof_otel_slot() };
            // SAFETY: the calling thread's own variable.
            unsafe { slot.read_volatile() as usize }
        };
        assert_eq!(slot(), 0);
        publish_record(std::ptr::without_provenance_mut(64));
        assert_eq!(slot(), 64);
        assert_eq!(std::thread::spawn(slot).join().expect("no panic"), 0);
    }
}
