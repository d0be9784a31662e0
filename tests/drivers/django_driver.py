"""Django over psycopg: migrations made, run and taken back; the model's queries and changes; transactions; inspectdb."""
import datetime
import decimal
import io
import os
import sys
import tempfile
import types
import uuid

import django
from django.conf import settings
from django.core.management import call_command

parts = dict(part.split("=", 1) for part in os.environ["TENON_DSN"].split())
database = {"ENGINE": "django.db.backends.postgresql", "NAME": parts["dbname"], "USER": parts["user"],
            "HOST": parts["host"], "PORT": parts["port"]}
directory = tempfile.TemporaryDirectory()
sys.path.insert(0, directory.name)
os.makedirs(f"{directory.name}/shop/migrations")
for module in ("shop", "shop/migrations"):
    open(f"{directory.name}/{module}/__init__.py", "w").close()
MODELS = '''
import uuid
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q


class Author(models.Model):
    name = models.CharField(max_length=40, unique=True)
    born = models.DateField(null=True)


class Book(models.Model):
    key = models.UUIDField(primary_key=True, default=uuid.uuid4)
    author = models.ForeignKey(Author, models.CASCADE, related_name="books")
    title = models.TextField()
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    sold = models.IntegerField(default=0)
    tags = ArrayField(models.CharField(max_length=10), default=list)
    about = models.JSONField(default=dict)
    made = models.DateTimeField(auto_now_add=True)
    cover = models.BinaryField(null=True)
    length = models.DurationField(null=True)
    readers = models.ManyToManyField(Author, related_name="reads")

    class Meta:
        ordering = ["title"]
        indexes = [models.Index(fields=["author", "-price"], name="book_by")]
        constraints = [models.CheckConstraint(condition=Q(price__gte=0), name="price_not_negative"),
                       models.UniqueConstraint(fields=["author", "title"], name="once")]
'''
open(f"{directory.name}/shop/models.py", "w").write(MODELS)
settings.configure(DATABASES={"default": database}, USE_TZ=True, TIME_ZONE="UTC",
                   INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "shop"],
                   DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.db import DatabaseError, IntegrityError, connection, transaction  # noqa: E402
from django.db.models import Avg, Count, Exists, F, Max, OuterRef, Q, Subquery, Sum, Window  # noqa: E402
from django.db.models.functions import Coalesce, Lower, Rank, TruncMonth  # noqa: E402
from shop.models import Author, Book  # noqa: E402


def told(*args, **options):
    out = io.StringIO()
    call_command(*args, stdout=out, stderr=out, **options)
    return out.getvalue()


def migrations():
    told("makemigrations", "shop")
    told("migrate")
    shown = told("showmigrations", "shop", no_color=True)
    assert shown == "shop\n [X] 0001_initial\n", shown
    tables = set(connection.introspection.table_names())
    assert {"shop_author", "shop_book", "shop_book_readers", "auth_user", "django_migrations"} <= tables, tables
    source = MODELS.replace("max_length=40, unique=True", "max_length=60, unique=True")
    source = source.replace("        ordering", "        db_table_comment = \"what there is to read\"\n        ordering")
    source = source.replace("    class Meta:", "    stars = models.SmallIntegerField(default=3)\n\n    class Meta:")
    open(f"{directory.name}/shop/models.py", "w").write(source)


def second_migration():
    """In a process of its own: models are read once."""
    import subprocess
    script = ("import sys; sys.path.insert(0, %r)\nimport django\nfrom django.conf import settings\n"
              "settings.configure(DATABASES={'default': %r}, USE_TZ=True, TIME_ZONE='UTC',\n"
              "    INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth', 'shop'],\n"
              "    DEFAULT_AUTO_FIELD='django.db.models.BigAutoField')\ndjango.setup()\n"
              "from django.core.management import call_command\n"
              "call_command('makemigrations', 'shop', name='more', verbosity=0)\n"
              "call_command('migrate', verbosity=0)\n"
              "from shop.models import Book\nassert set(Book.objects.values_list('stars', flat=True)) == {3}\n"
              "call_command('migrate', 'shop', '0001', verbosity=0)\n") % (directory.name, database)
    subprocess.run([sys.executable, "-c", script], check=True)
    columns = [c.name for c in connection.introspection.get_table_description(connection.cursor(), "shop_book")]
    assert "stars" not in columns and "price" in columns, columns


def changes():
    ann = Author.objects.create(name="Ann", born=datetime.date(1950, 2, 28))
    bob, cyd = Author.objects.bulk_create([Author(name="Bob"), Author(name="Cyd")])
    assert (ann.pk, bob.pk, cyd.pk) == (1, 2, 3)
    now = datetime.datetime.now(datetime.timezone.utc)
    books = Book.objects.bulk_create(
        [Book(author=[ann, bob][i % 2], title=f"book {i:02}", price=decimal.Decimal(i) / 4, sold=i, tags=["a", f"t{i}"],
              about={"n": i, "list": [1, {"x": None}]}, cover=bytes([0, 255, i]),
              length=datetime.timedelta(days=i, microseconds=7)) for i in range(20)])
    again = Book.objects.get(pk=books[5].pk)
    assert isinstance(again.key, uuid.UUID) and again.about == {"n": 5, "list": [1, {"x": None}]}, again.about
    assert (again.price, again.tags, bytes(again.cover)) == (decimal.Decimal("1.25"), ["a", "t5"], b"\x00\xff\x05")
    assert again.length == datetime.timedelta(days=5, microseconds=7) and abs(again.made - now) < datetime.timedelta(hours=1)
    upserted = Author.objects.bulk_create([Author(name="Bob", born=datetime.date(2000, 1, 1)), Author(name="Dan")],
                                          update_conflicts=True, unique_fields=["name"], update_fields=["born"])
    assert upserted[0].pk == bob.pk and Author.objects.count() == 4
    assert Author.objects.get(name="Bob").born == datetime.date(2000, 1, 1)
    assert Book.objects.filter(sold__gte=10).update(price=F("price") * 2, sold=F("sold") + 100) == 10
    again = Book.objects.get(title="book 12")
    assert (again.price, again.sold) == (6, 112), (again.price, again.sold)
    again.sold = F("sold") + 1
    again.save(update_fields=["sold"])
    again.refresh_from_db()
    assert again.sold == 113
    for book in books[:3]:
        book.title = book.title.upper()
    assert Book.objects.bulk_update(books[:3], ["title"]) == 3
    assert list(Book.objects.filter(title__startswith="BOOK").values_list("title", flat=True)) == ["BOOK 00", "BOOK 01", "BOOK 02"]
    books[0].readers.add(ann, cyd)
    books[1].readers.set([cyd])
    assert [a.name for a in books[0].readers.order_by("name")] == ["Ann", "Cyd"]
    found, made = Author.objects.get_or_create(name="Eve")
    assert made and found.pk is not None
    found, made = Author.objects.update_or_create(name="Eve", defaults={"born": datetime.date(1999, 9, 9)})
    assert not made and found.born.year == 1999
    assert found.delete() == (1, {"shop.Author": 1})
    user = User.objects.create_user("root", password="secret")
    assert User.objects.get(username="root").check_password("secret") and user.pk == 1


def queries():
    sums = Author.objects.annotate(n=Count("books"), total=Coalesce(Sum("books__sold"), 0), most=Max("books__price")).order_by("name")
    assert [(a.name, a.n, a.total, a.most) for a in sums] == [
        ("Ann", 10, 591, decimal.Decimal("9.00")), ("Bob", 10, 600, decimal.Decimal("9.50")), ("Cyd", 0, 0, None), ("Dan", 0, 0, None)]
    one = Book.objects.aggregate(Avg("sold"), n=Count("pk", filter=Q(sold__gt=100)), tags=Count("tags", distinct=True))
    assert one == {"sold__avg": 59.55, "n": 10, "tags": 20}, one
    assert Book.objects.filter(about__n__gte=18).count() == 2
    assert Book.objects.filter(about__list__0=1, about__n=3).get().title == "book 03"
    assert Book.objects.filter(tags__contains=["t7"]).get().title == "book 07"
    assert Book.objects.filter(tags__overlap=["t7", "t8"]).count() == 2
    assert Book.objects.filter(title__icontains="OOK 1", author__name__iexact="ann").count() == 5
    assert Book.objects.filter(title__regex=r"^book 1[0-3]$").count() == 4
    newest = Book.objects.filter(author=OuterRef("pk")).order_by("-sold").values("title")[:1]
    best = Author.objects.annotate(best=Subquery(newest)).filter(Exists(Book.objects.filter(author=OuterRef("pk")))).order_by("pk")
    assert [(a.name, a.best) for a in best] == [("Ann", "book 18"), ("Bob", "book 19")]
    ranked = Book.objects.annotate(place=Window(Rank(), partition_by="author", order_by=F("sold").desc())).filter(place=1)
    assert sorted(b.title for b in ranked) == ["book 18", "book 19"]
    months = Book.objects.annotate(month=TruncMonth("made")).values("month").annotate(n=Count("pk")).order_by("month")
    assert sum(m["n"] for m in months) == 20
    related = [(b.title, b.author.name) for b in Book.objects.select_related("author").order_by("-title")[:2]]
    assert related == [("book 19", "Bob"), ("book 18", "Ann")]
    fetched = {a.name: len(a.books.all()) for a in Author.objects.prefetch_related("books")}
    assert fetched == {"Ann": 10, "Bob": 10, "Cyd": 0, "Dan": 0}
    names = Author.objects.annotate(low=Lower("name")).values_list("low", flat=True)
    assert sorted(names.union(Author.objects.filter(pk=1).values_list("name", flat=True))) == ["Ann", "ann", "bob", "cyd", "dan"]
    # A cursor of the server's.
    assert sum(1 for _ in Book.objects.iterator(chunk_size=7)) == 20
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM shop_author WHERE id = ANY(%s) ORDER BY id", [[1, 2]])
        assert cursor.fetchall() == [("Ann",), ("Bob",)]
    assert "Seq Scan" in Book.objects.filter(sold=1).explain() or "index scan" in Book.objects.filter(sold=1).explain()


def transactions():
    before = Author.objects.count()
    try:
        with transaction.atomic():
            Author.objects.create(name="Zoe")
            raise KeyError
    except KeyError:
        pass
    assert Author.objects.count() == before
    with transaction.atomic():
        kept = Author.objects.create(name="Yan")
        try:
            with transaction.atomic():
                Author.objects.create(name="Yan")
        except IntegrityError as error:
            assert error.__cause__.sqlstate == "23505", error
        locked = Author.objects.select_for_update().get(pk=kept.pk)
        assert locked.name == "Yan"
    assert Author.objects.filter(name="Yan").count() == 1
    try:
        with transaction.atomic():
            # Django's foreign keys are checked when the transaction ends.
            Book.objects.create(author_id=999, title="of nobody")
            assert Book.objects.filter(title="of nobody").exists()
        raise AssertionError("should have failed")
    except IntegrityError as error:
        assert error.__cause__.sqlstate == "23503", error
    try:
        Book.objects.create(author_id=1, title="free", price=-1)
        raise AssertionError("should have failed")
    except IntegrityError as error:
        assert error.__cause__.diag.constraint_name == "price_not_negative", error
    ran = []
    with transaction.atomic():
        transaction.on_commit(lambda: ran.append(1))
    assert ran == [1]


def introspection():
    found = connection.introspection.get_constraints(connection.cursor(), "shop_book")
    assert found["price_not_negative"]["check"] and found["once"]["unique"] and found["once"]["columns"] == ["author_id", "title"]
    assert found["book_by"]["index"] and found["book_by"]["orders"] == ["ASC", "DESC"], found["book_by"]
    keys = [c["foreign_key"] for c in found.values() if c["foreign_key"]]
    assert keys == [("shop_author", "id")], keys
    sequences = connection.introspection.get_sequences(connection.cursor(), "shop_author")
    assert [(s["table"], s["column"]) for s in sequences] == [("shop_author", "id")], sequences
    written = told("inspectdb", "shop_book", "shop_author")
    for line in ("class ShopBook(models.Model):", "key = models.UUIDField(primary_key=True)",
                 "author = models.ForeignKey('ShopAuthor', models.DO_NOTHING)", "title = models.TextField()",
                 "price = models.DecimalField(max_digits=8, decimal_places=2)", "sold = models.IntegerField()",
                 "about = models.JSONField()", "made = models.DateTimeField()", "cover = models.BinaryField(blank=True, null=True)",
                 "length = models.DurationField(blank=True, null=True)", "unique_together = (('author', 'title'),)",
                 "name = models.CharField(unique=True, max_length=40)", "id = models.BigAutoField(primary_key=True)",
                 "db_table = 'shop_author'"):
        assert line in written, (line, written)


migrations()
changes()
queries()
transactions()
introspection()
second_migration()
told("flush", interactive=False)
assert Author.objects.count() == 0 and Author.objects.create(name="first").pk == 1
told("migrate", "shop", "zero")
assert not {"shop_author", "shop_book"} & set(connection.introspection.table_names())
directory.cleanup()
print(f"Django {django.get_version()}: ok")
