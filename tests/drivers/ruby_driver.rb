# Ruby: pg (types, prepared statements, binary results, pipelines, COPY, notifications, errors) and ActiveRecord over it
# (migrations with their advisory lock, the schema dumped and loaded again, enums, arrays, json, associations, batches,
# insert_all and upsert_all, savepoints, locks, validations).
require "pg"
require "active_record"
require "stringio"

DSN = ENV.fetch("TENON_DSN")

def expect(found, wanted)
  raise "#{found.inspect} instead of #{wanted.inspect}" unless found == wanted
end

def fails(kind)
  yield
rescue kind => error
  error
else
  raise "no #{kind}"
end

# pg alone.
conn = PG.connect(DSN)
raise conn.server_version.to_s if conn.server_version < 150_000
conn.exec("CREATE TABLE things (id int PRIMARY KEY, label varchar(5) NOT NULL, raw bytea, CONSTRAINT small CHECK (id < 100))")
conn.type_map_for_results = PG::BasicTypeMapForResults.new(conn)
conn.type_map_for_queries = PG::BasicTypeMapForQueries.new(conn)
row = conn.exec("SELECT 1::int2 AS a, 2.5::float8, true, NULL, '{1,NULL,3}'::int[], DATE '2024-02-29',
                 '{\"a\": [1]}'::jsonb, '\\x00ff'::bytea, 12.50::numeric, TIMESTAMP '2020-01-02 03:04:05.678'").values.first
expect(row.first(6), [1, 2.5, true, nil, [1, nil, 3], Date.new(2024, 2, 29)])
expect(row[6..8], [{"a" => [1]}, "\x00\xFF".b, BigDecimal("12.5")])
expect(row[9].strftime("%F %T.%3N"), "2020-01-02 03:04:05.678")
conn.prepare("add", "INSERT INTO things VALUES ($1, $2, $3)")
expect(conn.exec_prepared("add", [1, "one", PG::BasicTypeMapForQueries::BinaryData.new("\x00'\\")]).cmd_tuples, 1)
expect(conn.exec_params("SELECT label, raw FROM things WHERE id = $1", [1]).to_a, [{"label" => "one", "raw" => "\x00'\\".b}])
binary = conn.exec_params("SELECT $1::int8 + 1, 'x'", [41], 1)
expect([binary.ftype(0), binary.fformat(0), binary.getvalue(0, 0)], [20, 1, 42])
error = fails(PG::UniqueViolation) { conn.exec_prepared("add", [1, "again", nil]) }
fields = [PG::PG_DIAG_SQLSTATE, PG::PG_DIAG_CONSTRAINT_NAME, PG::PG_DIAG_MESSAGE_DETAIL]
expect(fields.map { |field| error.result.error_field(field) }, ["23505", "things_pkey", "Key (id)=(1) already exists."])
error = fails(PG::CheckViolation) { conn.exec("INSERT INTO things VALUES (100, 'x', '\\x00ff')") }
expect(error.result.error_field(PG::PG_DIAG_MESSAGE_DETAIL), "Failing row contains (100, x, \\x00ff).")
fails(PG::StringDataRightTruncation) { conn.exec_params("UPDATE things SET label = $1", ["longer"]) }

conn.enter_pipeline_mode
3.times { |number| conn.send_query_params("SELECT $1::int * 2", [number]) }
conn.pipeline_sync
doubled = 3.times.map { conn.get_result.getvalue(0, 0).tap { conn.get_result } }
expect(doubled, [0, 2, 4])
expect(conn.get_result.result_status, PG::PGRES_PIPELINE_SYNC)
conn.exit_pipeline_mode

conn.copy_data("COPY things (id, label) FROM STDIN") { (2..9).each { |id| conn.put_copy_data("#{id}\tl#{id}\n") } }
copied = []
conn.copy_data("COPY (SELECT id FROM things ORDER BY id) TO STDOUT") { while (line = conn.get_copy_data) do copied << line.to_i end }
expect(copied, (1..9).to_a)
conn.send_query("SELECT id FROM things ORDER BY id")
conn.set_single_row_mode
expect(conn.get_result.stream_each.map { |one| one["id"] }, (1..9).to_a)
conn.get_result
conn.exec("LISTEN news")
PG.connect(DSN).then { |other| other.exec("NOTIFY news, 'hello'"); other.close }
told = nil
conn.wait_for_notify(30) { |channel, _, payload| told = [channel, payload] }
expect(told, %w[news hello])
conn.send_query("SELECT pg_sleep(60)")
conn.cancel
fails(PG::QueryCanceled) { conn.get_last_result }
conn.exec("DROP TABLE things")

# ActiveRecord.
parts = DSN.split.to_h { |part| part.split("=", 2) }
ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: parts["host"], port: parts["port"].to_i, username: parts["user"], database: parts["dbname"]
)
ActiveRecord::Migration.verbose = false

class CreateShop < ActiveRecord::Migration[6.1]
  def up
    enable_extension "pgcrypto"
    execute "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')"
    create_table :authors do |t|
      t.string :name, null: false, limit: 80, comment: "in full"
      t.integer :status, null: false, default: 0
      t.integer :books_count, null: false, default: 0
      t.boolean :known, default: false
      t.timestamps
    end
    create_table :books, id: :uuid do |t|
      t.references :author, null: false, foreign_key: {on_delete: :cascade}
      t.text :title, null: false, default: ""
      t.decimal :price, precision: 8, scale: 2, default: 0.5
      t.jsonb :meta, null: false, default: {}
      t.string :tags, array: true, default: []
      t.binary :raw
      t.inet :address
      t.int4range :pages
      t.integer :lock_version, default: 0
      t.timestamps
    end
    create_table(:readers) { |t| t.column :mood, :mood, default: "ok" }
    add_index :authors, :name, unique: true
    add_index :books, "lower(title)", name: "books_by_title"
    add_index :books, :price, order: {price: :desc}, where: "title <> ''"
    add_check_constraint :books, "title <> 'none'", name: "titled"
    change_table_comment :authors, "people"
  end

  def down
    drop_table :readers
    drop_table :books
    drop_table :authors
    execute "DROP TYPE mood"
  end
end

def migrate(direction)
  ActiveRecord::SchemaMigration.create_table
  ActiveRecord::InternalMetadata.create_table
  migration = CreateShop.new("CreateShop", 20_240_101_000_000)
  ActiveRecord::Migrator.new(direction, [migration], ActiveRecord::SchemaMigration).migrate
  ActiveRecord::SchemaMigration.all_versions
end

# Columns of enums' types are none of what it dumps.
ActiveRecord::SchemaDumper.ignore_tables = ["readers"]

def schema
  StringIO.new.tap { |out| ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection, out) }.string
end

connection = ActiveRecord::Base.connection
expect(migrate(:up), ["20240101000000"])
dumped = schema
[
  'create_table "books", id: :uuid, default: -> { "gen_random_uuid()" }', 't.decimal "price", precision: 8, scale: 2, default: "0.5"',
  't.string "tags", default: [], array: true', 't.jsonb "meta", default: {}, null: false', 't.boolean "known", default: false',
  'create_table "authors", comment: "people", force: :cascade', 'name: "books_by_title"',
  'add_foreign_key "books", "authors", on_delete: :cascade', 't.index ["name"], name: "index_authors_on_name", unique: true'
].each { |line| raise "no #{line} in\n#{dumped}" unless dumped.include?(line) }

class Author < ActiveRecord::Base
  has_many :books, dependent: :destroy
  enum status: {draft: 0, live: 1}
  validates :name, presence: true, uniqueness: {case_sensitive: false}
end

class Book < ActiveRecord::Base
  belongs_to :author, counter_cache: true
end

class Reader < ActiveRecord::Base
  enum mood: {sad: "sad", ok: "ok", happy: "happy"}
end

author = Author.create!(name: "Ann")
expect([author.id, author.status, author.known], [1, "draft", false])
expect(Author.new(name: "ANN").valid?, false)
book = author.books.create!(title: "First", price: "9.50", meta: {a: [1, nil]}, tags: ["a b", 'c"d', "e,f"], raw: "\x00\xFF".b,
                            address: "10.0.0.1", pages: 1..5)
book.reload
expect([book.price, book.meta, book.tags, book.raw, book.address.to_s, book.pages],
       [BigDecimal("9.5"), {"a" => [1, nil]}, ["a b", 'c"d', "e,f"], "\x00\xFF".b, "10.0.0.1", 1...6])
30.times { |number| author.books.create!(title: "T#{number}", price: number, meta: {n: number}, tags: ["t#{number % 3}"]) }
expect(author.reload.books_count, 31)
expect(Book.where(price: ..3).order(:price, :title).pluck(:title, :price), [["T0", 0], ["T1", 1], ["T2", 2], ["T3", 3]])
expect(Book.where("tags @> ARRAY[?]::varchar[]", ["t1"]).count, 10)
expect(Book.where("meta @> ?", {n: 7}.to_json).pluck(:title), ["T7"])
expect(Author.joins(:books).where(books: {title: %w[T1 T2]}).distinct.pluck(:name), ["Ann"])
expect(Author.includes(:books).where("books.price > 20").references(:books).first.books.size, 9)
expect(Book.group("tags[1]").sum(:price), {"a b" => 9.5, "t0" => 135, "t1" => 145, "t2" => 155})
expect(Book.in_batches(of: 10).map(&:size), [10, 10, 10, 1])
expect(Book.find_each(batch_size: 7).count, 31)
now = {created_at: Time.now, updated_at: Time.now}
expect(Author.insert_all([{name: "Bob", **now}, {name: "Ann", **now}], unique_by: :name, returning: :name).rows, [["Bob"]])
Author.upsert_all([{name: "Bob", status: 1, **now}], unique_by: :name)
expect(Author.live.pluck(:name), ["Bob"])
fails(ActiveRecord::RecordNotUnique) { Author.insert!({name: "Ann", **now}) }
fails(ActiveRecord::NotNullViolation) { Book.insert!({title: "x", **now}) }
fails(ActiveRecord::InvalidForeignKey) { Book.insert!({author_id: 99, **now}) }
Author.transaction do
  Author.transaction(requires_new: true) do
    Author.create!(name: "Eve")
    raise ActiveRecord::Rollback
  end
  author.with_lock { author.live! }
  expect(Author.lock("FOR UPDATE SKIP LOCKED").order(:id).pluck(:name, :status), [%w[Ann live], %w[Bob live]])
end
reader = Reader.create!
reader.happy!
expect([Reader.happy.count, Reader.ok.count, reader.reload.mood], [1, 0, "happy"])
fails(ActiveRecord::StatementInvalid) { Reader.update_all("mood = 'none'") }
levels = %i[read_committed repeatable_read serializable].map do |level|
  Author.transaction(isolation: level) { connection.select_value("SHOW transaction_isolation") }
end
expect(levels, ["read committed", "repeatable read", "serializable"])
same = Book.find(book.id)
book.update!(title: "Second")
fails(ActiveRecord::StaleObjectError) { same.update!(title: "Third") }
expect(Book.where(price: 5..).update_all("price = price + 1"), 26)
expect(Book.joins(:author).where(authors: {name: "Ann"}).order(:title).limit(2).delete_all, 2)
expect(connection.serial_sequence("authors", "id"), "public.authors_id_seq")
fails(ActiveRecord::StatementInvalid) { connection.serial_sequence("absent", "id") }
connection.reset_pk_sequence!("authors")
expect(migrate(:down), [])

# What was dumped makes the same again.
eval(dumped)
expect(schema, dumped)
puts "pg #{PG::VERSION}, ActiveRecord #{ActiveRecord.version}"
