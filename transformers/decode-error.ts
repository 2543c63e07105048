// The only error that a transformer throws: the rule that a payload breaks, the place, and what the sender can do.

/** A payload that can never be decoded. Its message is dead-lettered with these fields. */
export class DecodeError extends Error {
  override readonly name = 'DecodeError'
  /** Stable, kebab-case: `one-value`, `name-characters`. Listed in docs/reference. */
  readonly rule: string
  /** The record's ordinal in the payload as received, from 0; undefined if the fault is not in a record. */
  readonly record: number | undefined
  /** What the sender can do, in one sentence. */
  readonly hint: string

  constructor(rule: string, message: string, where: { record?: number; hint?: string; cause?: unknown } = {}) {
    super(
      where.record === undefined ? message : `record ${where.record}: ${message}`,
      where.cause === undefined ? undefined : { cause: where.cause },
    )
    this.rule = rule
    this.record = where.record
    this.hint = where.hint ?? ''
  }
}
