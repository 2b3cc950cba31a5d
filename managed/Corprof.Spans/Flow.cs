using System.Threading;

namespace Corprof.Spans;

/// <summary>
/// The context of the current flow of execution. The runtime takes it along wherever a program's
/// work goes on, and tells us on each thread when it changes there.
/// </summary>
static class Flow
{
    static readonly AsyncLocal<Context?> Local =
        new(change => ThreadBlock.Write(change.CurrentValue));

    public static Context? Current
    {
        get => Local.Value;
        set => Local.Value = value;
    }
}
