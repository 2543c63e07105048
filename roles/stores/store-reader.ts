// A reader that ends with the connection it stands on.

import type { Reader } from '../../readers/reader.ts'

/** The same reader; closing it closes the connection behind it. */
export function closingBehind(reader: Reader, connection: { close(): Promise<void> }): Reader {
  return {
    ...reader,
    async close() {
      await reader.close()
      await connection.close()
    },
  }
}
