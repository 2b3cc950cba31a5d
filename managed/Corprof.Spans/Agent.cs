using System;
using System.Collections.Generic;
using System.IO;
using System.Runtime.InteropServices;
using System.Text;

namespace Corprof.Spans;

/// <summary>The agent's functions: <c>corprof.h</c>. Its text there says what each does.</summary>
static unsafe class Agent
{
    // With the calling convention named: .NET Core 3.1 knows no other.
    static delegate* unmanaged[Cdecl]<ContextBlock*> threadContext;
    static delegate* unmanaged[Cdecl]<byte*, nuint, uint> endpoint;
    static delegate* unmanaged[Cdecl]<ulong, uint, void> request;
    static delegate* unmanaged[Cdecl]<ulong, ulong, void> requestEnd;
    static delegate* unmanaged[Cdecl]<byte*, nuint, ulong> labels;

    /// <summary>Whether this process has an agent that profiles.</summary>
    public static bool Find()
    {
        foreach (var path in Paths())
        {
            if (!NativeLibrary.TryLoad(path, out var library))
                continue;
            if (Bind(library) && ThreadContext() != null)
                return true;
            NativeLibrary.Free(library);
        }
        return false;
    }

    /// <summary>The calling thread's block; null if there is none of a known layout.</summary>
    public static ContextBlock* ThreadContext()
    {
        var block = threadContext();
        var isKnown = block != null && block->Version >= 1 && block->Size >= ContextBlock.Bytes;
        return isKnown ? block : null;
    }

    /// <summary>The number of an endpoint's name, or 0.</summary>
    public static uint Endpoint(string name)
    {
        var bytes = Encoding.UTF8.GetBytes(name);
        fixed (byte* start = bytes)
            return endpoint(start, (nuint)bytes.Length);
    }

    /// <summary>Tells which endpoint a request is for.</summary>
    public static void Request(ulong localRoot, uint endpoint) => request(localRoot, endpoint);

    /// <summary>Tells that a request has ended.</summary>
    public static void RequestEnd(ulong localRoot, ulong nanos) => requestEnd(localRoot, nanos);

    /// <summary>The number of a set of labels, or 0.</summary>
    public static ulong Labels(IEnumerable<KeyValuePair<string, string>> labels)
    {
        var text = new StringBuilder();
        foreach (var (name, value) in labels)
            text.Append(name).Append('\0').Append(value).Append('\0');
        var bytes = Encoding.UTF8.GetBytes(text.ToString());
        fixed (byte* start = bytes)
            return Agent.labels(start, (nuint)bytes.Length);
    }

    /// <summary>
    /// The libraries that the runtime was told to load as profilers, if it was, as far as they can
    /// be ours. In plain loops: each generic method of a query would have to be compiled first.
    /// </summary>
    static List<string> Paths()
    {
        var paths = new List<string>();
        // The runtime prefers the names with the processor.
        foreach (var suffix in new[] { "_ARM64", "_64", "" })
        {
            if (Variable("CORECLR_ENABLE_PROFILING") == "1")
                AddOurs(paths, Variable("CORECLR_PROFILER_PATH" + suffix));
            if (Variable("CORECLR_ENABLE_NOTIFICATION_PROFILERS") != "1")
                continue;
            // Each one is path={class id}, with semicolons between.
            foreach (var entry in Variable("CORECLR_NOTIFICATION_PROFILERS" + suffix).Split(';'))
            {
                var end = entry.LastIndexOf('=');
                AddOurs(paths, end < 0 ? entry : entry.Substring(0, end));
            }
        }
        return paths;
    }

    static void AddOurs(List<string> paths, string path)
    {
        // Whatever comes after it, as in libcorprof-0.1.0.so. A library of another name is not
        // loaded, only to see whether it is ours.
        var name = Path.GetFileName(path);
        if (name.StartsWith("libcorprof", StringComparison.Ordinal)
            || name.StartsWith("corprof", StringComparison.OrdinalIgnoreCase))
            paths.Add(path);
    }

    static string Variable(string name) => Environment.GetEnvironmentVariable(name) ?? "";

    static bool Bind(nint library)
    {
        if (!NativeLibrary.TryGetExport(library, "corprof_thread_context", out var context)
            || !NativeLibrary.TryGetExport(library, "corprof_endpoint", out var name)
            || !NativeLibrary.TryGetExport(library, "corprof_request", out var begin)
            || !NativeLibrary.TryGetExport(library, "corprof_request_end", out var end)
            || !NativeLibrary.TryGetExport(library, "corprof_labels", out var set))
            return false;
        threadContext = (delegate* unmanaged[Cdecl]<ContextBlock*>)context;
        endpoint = (delegate* unmanaged[Cdecl]<byte*, nuint, uint>)name;
        request = (delegate* unmanaged[Cdecl]<ulong, uint, void>)begin;
        requestEnd = (delegate* unmanaged[Cdecl]<ulong, ulong, void>)end;
        labels = (delegate* unmanaged[Cdecl]<byte*, nuint, ulong>)set;
        return true;
    }
}
