using System;
using System.IO;

namespace Corprof.Spans;

/// <summary>The one line that is said, and only to those who asked for it.</summary>
static class Log
{
    /// <summary>Says something in the agent's form, where the agent does. Never throws.</summary>
    public static void Say(string text)
    {
        try
        {
            if (!Settings.IsTalkative)
                return;
            var line = "corprof: info: spans: " + text + Environment.NewLine;
            if (Settings.LogFile is { Length: > 0 } file)
                File.AppendAllText(file, line);
            else
                Console.Error.Write(line);
        }
        catch (Exception)
        {
            // Nobody can be told that nothing can be said.
        }
    }
}
