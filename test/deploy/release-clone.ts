// A repository with the project's files and one commit on main, for `npm run release`.

import { execFile, execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkOut } from '../check-out.ts'
import { temporaryFolder } from '../temporary-folder.ts'

export interface Clone {
  readonly folder: string
  readonly git: (...words: string[]) => string
  readonly write: (path: string, text: string) => void
  /** Runs deploy/release.ts. @param environment instead of the test's own */
  readonly release: (words: readonly string[], environment?: NodeJS.ProcessEnv) => Promise<{ code: number; printed: string }>
}

/** A section for 0.2.0, as `CHANGELOG.md` has it before the release. */
export const section = '## 0.2.0 (not released)\n\n- Something new.\n\n'

/** Call it inside a test. @param isWanted by its path; every file by default */
export async function newClone(isWanted?: (path: string) => boolean): Promise<Clone> {
  const folder = temporaryFolder()
  const git = (...words: string[]): string => execFileSync('git', words, { cwd: folder, encoding: 'utf8' }).trim()
  const write = (path: string, text: string): void => writeFileSync(join(folder, path), text)
  await checkOut(folder, isWanted)
  const changelog = readFileSync(join(folder, 'CHANGELOG.md'), 'utf8')
  write('CHANGELOG.md', changelog.replace(/^## /m, `${section}## `))
  git('init', '--quiet', '--initial-branch', 'main')
  git('config', 'user.name', 'Tests')
  git('config', 'user.email', 'tests@sluice.example')
  git('add', '--all')
  git('commit', '--quiet', '--message', 'Begin')
  return {
    folder,
    git,
    write,
    release: (words, environment = process.env) =>
      new Promise(resolve => {
        const options = { cwd: folder, env: environment, maxBuffer: 1 << 26 }
        execFile(process.execPath, [join(folder, 'deploy/release.ts'), ...words], options, (error, stdout, stderr) =>
          resolve({ code: error === null ? 0 : Number(error.code), printed: stdout + stderr }),
        )
      }),
  }
}
