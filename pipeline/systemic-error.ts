// What no retry can mend: the process stops with this message.

/** The message says what is wrong, where, and what to do. */
export class SystemicError extends Error {
  override readonly name = 'SystemicError'
}
