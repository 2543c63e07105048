// The content of a clone, from the work tree.

import { execFile } from 'node:child_process'
import { cp, mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = new URL('..', import.meta.url).pathname

/** Copies every file that is tracked, or would be by the next commit; or those of them that are named. */
export async function checkOut(target: string, isWanted: (path: string) => boolean = () => true): Promise<void> {
  const list = async (...which: string[]): Promise<string[]> => {
    const { stdout } = await run('git', ['ls-files', '-z', ...which], { cwd: root, maxBuffer: 1 << 26 })
    return stdout.split('\0').filter(path => path !== '')
  }
  const deleted = new Set(await list('--deleted'))
  for (const path of await list('--cached', '--others', '--exclude-standard')) {
    if (deleted.has(path) || !isWanted(path)) continue
    await mkdir(dirname(join(target, path)), { recursive: true })
    await cp(join(root, path), join(target, path))
  }
}
