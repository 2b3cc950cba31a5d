using System.Runtime.InteropServices;

namespace Corprof.Spans;

/// <summary>
/// A thread's context block as the agent has it: <c>corprof_context</c> in <c>corprof.h</c>.
/// </summary>
[StructLayout(LayoutKind.Explicit, Size = Bytes)]
struct ContextBlock
{
    /// <summary>The size of the part that is known here, in bytes.</summary>
    public const int Bytes = 64;

    [FieldOffset(0)] public uint Version;
    [FieldOffset(4)] public uint Size;

    /// <summary>Odd while the block is being written.</summary>
    [FieldOffset(8)] public uint Sequence;

    /// <summary>As a number; 0 for none.</summary>
    [FieldOffset(16)] public ulong LocalRoot;

    /// <summary>The number of a set of labels; 0 for none.</summary>
    [FieldOffset(24)] public ulong Labels;

    /// <summary>The trace's first eight bytes, in their order in memory; then the others.</summary>
    [FieldOffset(32)] public ulong TraceFirst;
    [FieldOffset(40)] public ulong TraceLast;

    /// <summary>The span's bytes, in their order in memory.</summary>
    [FieldOffset(48)] public ulong Span;

    /// <summary>1 if there is a span.</summary>
    [FieldOffset(56)] public byte Valid;
}
