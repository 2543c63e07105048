// Device text as an error may quote it: short, on one line, plain.

const excerptCharactersMax = 40
/** Of characters that are all escaped there would be six times as many. */
const escapedCharactersMax = 100

/**
 * Quotes text that a device chose, for the message of an error: cut after 40 characters, and with control characters and
 * lone surrogates escaped, so that it can stand in a header or a terminal.
 */
export function excerpt(text: string): string {
  const quoted = text.length > excerptCharactersMax ? `${JSON.stringify(text.slice(0, excerptCharactersMax))}…` : JSON.stringify(text)
  // JSON lets those from U+007F to U+009F stand, and terminals act on them.
  const escaped = printable(quoted)
  return escaped.length > escapedCharactersMax ? `${escaped.slice(0, escapedCharactersMax)}…"` : escaped
}

/** The text with its control characters and lone surrogates escaped, as JSON would. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cs}]/gu, character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** What JSON.parse says of text that is no JSON, without the text around the fault, and with the character at it as one can print it. */
export function syntaxReason(cause: unknown): string {
  return cause instanceof Error ? printable(cause.message.replace(/, (?:\.{3})?".*$/s, '')) : 'it cannot be parsed'
}
