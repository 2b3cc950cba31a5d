using System;
using System.Diagnostics;
using System.IO;
using System.Runtime.InteropServices;

namespace Corprof.TestApps;

/// <summary>What a sample of the calling thread would be labelled with.</summary>
readonly struct ContextBlock
{
    [StructLayout(LayoutKind.Sequential)]
    unsafe struct Raw
    {
        public uint Version;
        public uint Size;
        public uint Sequence;
        public uint Reserved;
        public ulong LocalRoot;
        public ulong Labels;
        public fixed byte Trace[16];
        public fixed byte Span[8];
        public byte Valid;
    }

    // Where the record of OpenTelemetry's thread context begins in the block.
    const int RecordOffset = 32;

    static readonly nint Library = Load();
    static readonly nint Function = Export("corprof_thread_context");

    /// <summary>Whether there is a block, that is a profiler.</summary>
    public readonly bool IsThere;

    /// <summary>Hexadecimal digits; empty if there is no span.</summary>
    public readonly string TraceId;
    public readonly string SpanId;

    /// <summary>0 for none.</summary>
    public readonly ulong LocalRoot;
    public readonly ulong Labels;

    unsafe ContextBlock(Raw* block)
    {
        IsThere = block != null;
        TraceId = SpanId = "";
        LocalRoot = Labels = 0;
        if (block == null)
            return;
        if ((block->Sequence & 1) != 0)
            throw new InvalidOperationException("the block was left in the middle of a write");
        LocalRoot = block->LocalRoot;
        Labels = block->Labels;
        if (block->Valid == 0)
            return;
        TraceId = Hex(new ReadOnlySpan<byte>(block->Trace, 16));
        SpanId = Hex(new ReadOnlySpan<byte>(block->Span, 8));
    }

    /// <summary>Whether the process has an agent that keeps blocks.</summary>
    public static bool HasAgent => Function != 0;

    /// <summary>The calling thread's.</summary>
    public static unsafe ContextBlock Read()
    {
        var function = (delegate* unmanaged[Cdecl]<Raw*>)Function;
        return new ContextBlock(function == null ? null : function());
    }

    /// <summary>Whether the thread works for this activity; for none if it is null.</summary>
    public bool Is(Activity? activity) =>
        (TraceId, SpanId) == (activity == null
            ? ("", "")
            : (activity.TraceId.ToHexString(), activity.SpanId.ToHexString()));

    public override string ToString() =>
        $"trace {TraceId} span {SpanId} root {LocalRoot:x16} labels {Labels}";

    /// <summary>
    /// Whether OpenTelemetry's readers find the calling thread's record, which is in the block: the
    /// symbol of a thread-local variable is its address on this thread.
    /// </summary>
    public static unsafe bool IsPublished()
    {
        var function = (delegate* unmanaged[Cdecl]<byte*>)Function;
        var slot = (byte**)Export("otel_thread_ctx_v1");
        return function != null && slot != null && *slot == function() + RecordOffset;
    }

    static nint Load()
    {
        var path = Environment.GetEnvironmentVariable("CORECLR_PROFILER_PATH") ?? "";
        if (Path.IsPathRooted(path) && NativeLibrary.TryLoad(path, out var library))
            return library;
        return 0;
    }

    static nint Export(string name) =>
        Library != 0 && NativeLibrary.TryGetExport(Library, name, out var found) ? found : 0;

    static string Hex(ReadOnlySpan<byte> bytes)
    {
        var text = "";
        foreach (var b in bytes)
            text += b.ToString("x2");
        return text;
    }
}
