// An error that retrying cannot resolve: the process stops with its message.

/** The message says what is wrong, where, and what to do. */
export class SystemicError extends Error {
  override readonly name = 'SystemicError'
}
