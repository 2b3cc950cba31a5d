using System;

namespace Corprof.Spans;

/// <summary>
/// What the assembly Corprof calls to set labels. It knows this one by name only: programs that use
/// labels run the same where there is no profiler.
/// </summary>
static class Labels
{
    /// <summary>Sets a label; gives what <see cref="RestoreName"/>'s function needs.</summary>
    const string SetName = "Corprof.Labels.Set";

    /// <summary>Sets the labels as they were before.</summary>
    const string RestoreName = "Corprof.Labels.Restore";

    /// <summary>Whether the functions can be found already.</summary>
    public static bool ArePublished => AppDomain.CurrentDomain.GetData(SetName) != null;

    /// <summary>Lets the functions be found.</summary>
    public static void Publish()
    {
        var domain = AppDomain.CurrentDomain;
        domain.SetData(SetName, new Func<string, string?, object?>(Set));
        domain.SetData(RestoreName, new Action<object?>(Restore));
    }

    static object? Set(string name, string? value)
    {
        var from = Flow.Current;
        try
        {
            if (!string.IsNullOrEmpty(name))
                Flow.Current = Context.With(from, LabelSet.With(from?.Labels, name, value));
        }
        catch (Exception)
        {
            // Samples without the label are better than a program that fails for it.
        }
        return from?.Labels;
    }

    static void Restore(object? labels) =>
        Flow.Current = Context.With(Flow.Current, labels as LabelSet);
}
