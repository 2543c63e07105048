// How long a worker may be silent: before it counts as not ready, and before it is ended.

/** Of a worker's reports, of which one is due each second. */
export interface SilenceLimits {
  /** How often it is looked whether they came. */
  readonly lookMs: number
  /** A worker that was silent for longer is not ready. */
  readonly readyMsMax: number
  /** One that was silent for longer is ended, and another one started in its place. */
  readonly aliveMsMax: number
}

/**
 * Reports come from a thread's event loop, as its heartbeats to the group do: silent for the 10 s of a session, it has lost its share of the
 * log to others, and is not at work whatever it does. Before it is ended it may be silent for much longer. The longest that a healthy one is
 * is some seconds, for a batch that expands to 64 MiB; on a machine with ten times as many threads as cores that is the best part of a minute.
 */
export const defaultSilence: SilenceLimits = { lookMs: 1_000, readyMsMax: 10_000, aliveMsMax: 60_000 }
