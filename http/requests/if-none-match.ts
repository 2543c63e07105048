// Reads the header If-None-Match.

/** Whether the header names the tag: compared weakly (RFC 9110 §13.1.2). */
export function isAmong(header = '', etag: string): boolean {
  return header.split(',').some(tag => ['*', etag].includes(tag.trim().replace(/^W\//, '')))
}
