using System;

namespace Corprof
{
    /// <summary>
    /// Labels for what a profile says: time is then told apart by them, as
    /// <c>corprof top --by label:tenant</c>. Where the program is not profiled they do nothing.
    /// </summary>
    public static class Labels
    {
        // Given by the profiler's startup hook, before the program began.
        static readonly Func<string, string?, object?>? SetLabel =
            AppDomain.CurrentDomain.GetData("Corprof.Labels.Set")
                as Func<string, string?, object?>;

        static readonly Action<object?>? Restore =
            AppDomain.CurrentDomain.GetData("Corprof.Labels.Restore") as Action<object?>;

        /// <summary>
        /// Sets a label for all that the caller does until the result is disposed, also after an
        /// <c>await</c>, and in tasks and threads that it starts.
        /// </summary>
        /// <example>
        /// <code>using (Corprof.Labels.Set("tenant", tenant.Name)) { await Handle(order); }</code>
        /// </example>
        /// <param name="name">The label's name, up to 64 bytes. An empty one sets nothing.</param>
        /// <param name="value">
        /// Its value, up to 256 bytes; one of few, since a process can have 10,000 different sets
        /// of labels. With null there is no label of that name.
        /// </param>
        /// <returns>What sets the labels as they were before, when it is disposed.</returns>
        public static Scope Set(string name, string? value) =>
            SetLabel == null ? default : new Scope(SetLabel(name, value));

        /// <summary>The time for which a label is set.</summary>
        public readonly struct Scope : IDisposable
        {
            readonly object? labels;
            readonly bool isSet;

            internal Scope(object? labels)
            {
                this.labels = labels;
                isSet = true;
            }

            /// <summary>Sets the labels as they were before.</summary>
            public void Dispose()
            {
                if (isSet)
                    Restore?.Invoke(labels);
            }
        }
    }
}
