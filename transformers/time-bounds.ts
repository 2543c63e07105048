// Which instants the rows of a message may have.

/** Whole microseconds. Nothing moves the bounds beyond ±2^53 µs, which is what a row can hold exactly. */
export interface TimeBounds {
  /** The earliest instant, since 1970. SenML reads what lies before 2^28 s as relative (RFC 8428 §4.5.3), so nobody can mean it there. */
  timeMinUs: number
  /** How far an instant may lie after the one at which the message was received. */
  timeAheadMaxUs: number
}

/** From 2^28 seconds (July 1978) to 366 days after the message was received. */
export const defaultTimeBounds: TimeBounds = { timeMinUs: 2 ** 28 * 1e6, timeAheadMaxUs: 366 * 86_400 * 1e6 }
