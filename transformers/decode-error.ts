// The one error that a transformer throws: which rule a payload breaks, where, and what its sender can do.

/** A payload that can never be decoded. Its message is dead-lettered with these fields. */
export class DecodeError extends Error {
  override readonly name = 'DecodeError'
  /** Stable, kebab-case: `one-value`, `name-characters`. Named in the README beside the decoder. */
  readonly rule: string
  /** The record's ordinal in the payload as received, from 0; undefined where the fault is not inside a record. */
  readonly record: number | undefined
  /** What to do about it, one sentence. */
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
