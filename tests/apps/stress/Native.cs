using System;
using System.Runtime.InteropServices;
using System.Threading;

namespace Corprof.TestApps;

/// <summary>Libraries that are mapped and unmapped, and native code that calls back.</summary>
static class Native
{
    const int Items = 500;

    // Small ones of the C library's own package, which nothing else holds loaded; on each system
    // some are missing.
    static readonly string[] Libraries =
    {
        "libanl.so.1",
        "libBrokenLocale.so.1",
        "libresolv.so.2",
        "libthread_db.so.1",
        "libnss_hesiod.so.2",
        "libnsl.so.1",
        "libcrypt.so.1",
        "libutil.so.1",
    };

    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
    delegate int Comparison(in int left, in int right);

    [DllImport("libc", EntryPoint = "qsort")]
    static extern void QuickSort(int[] items, nuint count, nuint size, Comparison compare);

    public static void LoadLibraries(Pulse pulse)
    {
        while (pulse.Continues)
        {
            foreach (var name in Libraries)
            {
                if (!NativeLibrary.TryLoad(name, out var library))
                    continue;
                NativeLibrary.Free(library);
                pulse.Beat();
            }
            Thread.Sleep(1);
        }
    }

    public static void SortByCallback(Pulse pulse)
    {
        var random = new Random(1);
        Comparison compare = (in int left, in int right) => left.CompareTo(right);
        var items = new int[Items];
        while (pulse.Continues)
        {
            for (var i = 0; i < items.Length; i++)
                items[i] = random.Next();
            QuickSort(items, (nuint)items.Length, sizeof(int), compare);
            for (var i = 1; i < items.Length; i++)
            {
                if (items[i - 1] > items[i])
                    throw new InvalidOperationException("qsort did not sort");
            }
            pulse.Beat();
        }
        GC.KeepAlive(compare);
    }
}
