using System;
using System.IO;
using System.Runtime.InteropServices;
using System.Text;

namespace Corprof.Spans;

/// <summary>The one line that is said, and only to those who asked for it.</summary>
static class Log
{
    /// <summary>Of Linux, on each processor that there is an agent for.</summary>
    const int WriteOnly = 0x1, Create = 0x40, Append = 0x400, NonBlocking = 0x800;

    /// <summary>What all may read and write, but for what the process's mask takes away.</summary>
    const int Mode = 0x1b6;

    /// <summary>Says something in the agent's form, where the agent does. Never throws.</summary>
    public static void Say(string text)
    {
        try
        {
            if (!Settings.IsTalkative)
                return;
            var line = "corprof: info: spans: " + text + Environment.NewLine;
            if (Settings.LogFile is not { Length: > 0 } file || !IsAdded(file, line))
                Console.Error.Write(line);
        }
        catch (Exception)
        {
            // Nobody can be told that nothing can be said.
        }
    }

    static bool IsAdded(string file, string line)
    {
        if (Path.DirectorySeparatorChar == '/')
            return IsWritten(file, Encoding.UTF8.GetBytes(line));
        File.AppendAllText(file, line);
        return true;
    }

    /// <summary>
    /// As the agent does it: the runtime would wait for the reader of a pipe, and the program never
    /// start.
    /// </summary>
    static bool IsWritten(string file, byte[] line)
    {
        var descriptor = open(file, WriteOnly | Create | Append | NonBlocking, Mode);
        if (descriptor < 0)
            return false;
        var written = write(descriptor, line, (nuint)line.Length);
        close(descriptor);
        return written == line.Length;
    }

    [DllImport("libc")]
    static extern int open([MarshalAs(UnmanagedType.LPUTF8Str)] string path, int flags, int mode);

    [DllImport("libc")]
    static extern nint write(int descriptor, byte[] bytes, nuint count);

    [DllImport("libc")]
    static extern int close(int descriptor);
}
