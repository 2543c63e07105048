// A folder for one test, removed at its end.

import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Call it inside a test. Returns an absolute path without links. */
export function temporaryFolder(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-test-')))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
