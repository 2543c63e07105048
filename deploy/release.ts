// `npm run release -- <version>`: makes a release of what is on main: its commit, its tag, and its files in dist/. It pushes nothing.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { writeReleaseFiles } from './release-files.ts'
import { withVersion } from './version.ts'

const usage = `Usage: npm run release -- <version> [--dry-run | --files]

Makes a release of what is on the branch main, and pushes nothing: it prints the command that does. The version is in package.json; files
that cannot read it there get it from the release. CHANGELOG.md has a section "## <version> (not released)", which gets the date.

  npm run release -- 0.2.0 --dry-run   checks, and prints what a release would do
  npm run release -- 0.2.0             commits the version, tags v0.2.0, and writes dist/
  npm run release -- 0.2.0 --files     writes dist/ again from the tag v0.2.0: the same bytes, with the same git, npm, tar and gzip

dist/ is replaced, and has the source, the same with its packages and Node (for Linux on x64), the packages as CycloneDX, and SHA256SUMS.
Branch and tag change when everything else is done: after an error, or Ctrl-C before that, both are as they were.

Exit code 0: done. 1: refused or failed, and why is printed. 2: called wrongly.
`

/** A reason not to release, for a person. */
class Refusal extends Error {}

/** It was called wrongly. */
class Misuse extends Error {}

const root = fileURLToPath(new URL('..', import.meta.url))
const branch = 'main'
const dist = join(root, 'dist')
/** The most changed files that a refusal lists. */
const listedMax = 5

type Run = (...words: string[]) => string

const gitIn =
  (folder: string): Run =>
  (...words) =>
    execFileSync('git', words, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()

const git = gitIn(root)

/** What git prints, or undefined where it ends with an error. */
function found(...words: string[]): string | undefined {
  try {
    return git(...words)
  } catch {
    return undefined
  }
}

interface Manifest {
  version: string
  packages?: Record<string, { version: string }>
}

const readManifest = (path: string): Manifest => JSON.parse(readFileSync(path, 'utf8')) as Manifest

function isLower(version: string, than: string): boolean {
  const [left, right] = [version, than].map(text => text.split('.').map(Number)) as [number[], number[]]
  const at = left.findIndex((part, nth) => part !== right[nth])
  return at !== -1 && left[at]! < right[at]!
}

/** The section of a version that is not released: its heading, and its text. */
function sectionOf(changelog: string, version: string): { heading: string; text: string } | undefined {
  const heading = `## ${version} (not released)\n`
  const start = `\n${changelog}`.indexOf(`\n${heading}`)
  if (start === -1) return undefined
  const [text = ''] = changelog.slice(start + heading.length).split(/^## /m)
  return { heading, text: text.trim() }
}

/** Everything that is in the way. Empty: it can be released. */
function obstacles(version: string, tag: string): string[] {
  const reasons: string[] = []
  const on = found('symbolic-ref', '--short', '--quiet', 'HEAD')
  if (on !== branch) reasons.push(`this is ${on === undefined ? 'no branch' : `the branch ${on}`}: git switch ${branch}`)
  const changed = git('status', '--porcelain').split('\n').filter(Boolean)
  if (changed.length > 0) {
    const more = changed.length > listedMax ? `, and ${changed.length - listedMax} more` : ''
    const listed = changed.slice(0, listedMax).map(line => line.replace(/^\s*\S+\s+/, ''))
    reasons.push(`there are changes that are not committed (${listed.join(', ')}${more}): commit them, or git stash --include-untracked`)
  }
  if (found('rev-parse', '--verify', '--quiet', `refs/tags/${tag}`) !== undefined)
    reasons.push(`the tag ${tag} exists: choose the next version, or write its files again with --files`)
  const { version: current } = readManifest(join(root, 'package.json'))
  if (isLower(version, current)) reasons.push(`${version} is lower than ${current} in package.json: choose a higher version`)
  const section = sectionOf(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'), version)
  if (section === undefined)
    reasons.push(`CHANGELOG.md has no section "## ${version} (not released)": add it, with what changed for those who run Sluice`)
  else if (section.text === '') reasons.push(`the section of ${version} in CHANGELOG.md is empty: say what changed`)
  return reasons
}

/** Sets the version and the date of the release in a checked-out tree. */
function edit(tree: string, version: string, date: string): void {
  for (const file of ['package.json', 'package-lock.json']) {
    const path = join(tree, file)
    const manifest = readManifest(path)
    manifest.version = version
    const own = manifest.packages?.['']
    if (own !== undefined) own.version = version
    writeFileSync(path, `${JSON.stringify(manifest, null, 2)}\n`)
  }
  for (const file of gitIn(tree)('ls-files', 'deploy').split('\n')) {
    const copy = join(tree, file)
    const text = readFileSync(copy, 'utf8')
    const changed = withVersion(file, text, version)
    if (changed !== text) writeFileSync(copy, changed)
  }
  const path = join(tree, 'CHANGELOG.md')
  const text = readFileSync(path, 'utf8')
  writeFileSync(path, text.replace(sectionOf(text, version)!.heading, `## ${version} (${date})\n`))
}

/** @param use gets an empty folder, which is removed at the end */
function inFolder(use: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-release-'))
  try {
    use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function release(version: string, tag: string): void {
  const before = git('rev-parse', 'HEAD')
  inFolder(folder => {
    // The work tree and its branch stay as they are until everything is written.
    const tree = join(folder, 'tree')
    git('worktree', 'add', '--quiet', '--detach', tree, before)
    try {
      edit(tree, version, new Date().toISOString().slice(0, 10))
      const gitThere = gitIn(tree)
      gitThere('commit', '--quiet', '--all', '--message', `Release ${version}`)
      const commit = gitThere('rev-parse', 'HEAD')
      writeFiles(commit, version)
      git('tag', '--annotate', '--message', `Sluice ${version}`, tag, commit)
      try {
        git('merge', '--quiet', '--ff-only', commit)
      } catch (error) {
        git('tag', '--delete', tag)
        throw error
      }
    } catch (error) {
      rmSync(dist, { recursive: true, force: true })
      throw error
    } finally {
      git('worktree', 'remove', '--force', tree)
    }
  })
  console.log(`
${version} is committed on ${branch}, and tagged ${tag}. Publish both, then attach the files of dist/ to the tag:

  git push --atomic origin ${branch} ${tag}

Until then this undoes it:

  git tag --delete ${tag} && git reset --keep ${before} && rm -r dist`)
}

function writeFiles(commit: string, version: string): void {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new Refusal(`the files of a release are written on Linux on x64, and this is ${process.platform} on ${process.arch}`)
  rmSync(dist, { recursive: true, force: true })
  inFolder(folder => writeReleaseFiles({ repository: root, commit, version, folder, dist, say: line => console.log(line) }))
}

function main(): number {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { 'dry-run': { type: 'boolean' }, files: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
  })
  if (values.help === true) {
    console.log(usage)
    return 0
  }
  const [version = '', ...rest] = positionals
  if (rest.length > 0 || !/^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}$/.test(version))
    throw new Misuse(`say one version, such as 0.2.0, instead of ${JSON.stringify(positionals.join(' '))}`)
  if (values['dry-run'] === true && values.files === true) throw new Misuse('--dry-run and --files exclude each other')
  const tag = `v${version}`
  if (values.files === true) {
    const commit = found('rev-parse', '--verify', '--quiet', `refs/tags/${tag}^{commit}`)
    if (commit === undefined) throw new Refusal(`there is no tag ${tag}: git fetch --tags, or release it without --files`)
    writeFiles(commit, version)
    return 0
  }
  const reasons = obstacles(version, tag)
  if (reasons.length > 0) throw new Refusal(`${version} cannot be released:\n${reasons.map(reason => `  - ${reason}`).join('\n')}`)
  if (values['dry-run'] === true) {
    console.log(
      `${version} can be released: package.json, package-lock.json and the files of deploy/ that repeat it would get the version, CHANGELOG.md the date, ${branch} the commit and the tag ${tag}, and dist/ the files`,
    )
    return 0
  }
  release(version, tag)
  return 0
}

// The running command gets Ctrl-C too and ends, and what was begun is removed.
process.on('SIGINT', () => undefined)
try {
  process.exitCode = main()
} catch (error) {
  const { code = '', stderr } = error as { code?: string; stderr?: string }
  const isMisuse = error instanceof Misuse || code.startsWith('ERR_PARSE_ARGS')
  if (isMisuse) console.error(`release: ${(error as Error).message}\n\n${usage}`)
  else if (error instanceof Refusal) console.error(`release: ${error.message}`)
  // Of git, tar, npm or gzip, whose message has what it printed.
  else if (stderr !== undefined) console.error(`release: ${(error as Error).message.trim()}`)
  else console.error(error)
  process.exitCode = isMisuse ? 2 : 1
}
