// Quotes text from devices in errors: shortened, on one line, without control characters.

const excerptCharactersMax = 40
/** Without this limit, a text of escaped characters only would be six times as long. */
const escapedCharactersMax = 100

/**
 * Quotes text that a device chose, for the message of an error: cut after 40 characters, and with control characters and
 * lone surrogates escaped, so that it is safe in a header and on a terminal.
 */
export function excerpt(text: string): string {
  const quoted = text.length > excerptCharactersMax ? `${JSON.stringify(text.slice(0, excerptCharactersMax))}…` : JSON.stringify(text)
  // JSON.stringify does not escape U+007F to U+009F, which terminals interpret.
  const escaped = printable(quoted)
  // Not in the middle of a surrogate pair.
  return escaped.length > escapedCharactersMax ? `${escaped.slice(0, escapedCharactersMax).replace(/[\ud800-\udbff]$/, '')}…"` : escaped
}

/** The text with its control characters and lone surrogates escaped, as JSON would. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cs}]/gu, character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** The message of a JSON.parse error, without the text around the fault, and with a non-printable character escaped. */
export function syntaxReason(cause: unknown): string {
  return cause instanceof Error ? printable(cause.message.replace(/, (?:\.{3})?".*$/s, '')) : 'it cannot be parsed'
}
